"""The name of the user by which jobs are the own ones: of a cluster, that of its API server."""

from windlass.cli.current_user import current_user
from windlass.cli.target import own_name


def test_own_jobs_are_those_of_the_user_as_the_api_server_knows_it(cluster):
    assert own_name("kubernetes", "") == current_user(), "an API server that does not tell the name"
    cluster.says["/apis/authentication.k8s.io/v1/selfsubjectreviews"] = {
        "status": {"userInfo": {"username": "oidc:ada"}}
    }
    assert own_name("kubernetes", "") == "oidc:ada"
    assert own_name("local", "") == current_user()
