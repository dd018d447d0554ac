import asyncio

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.deploy.crds import OWN, crds
from windlass.deploy.install.readiness import InstallError, is_ready, wait_until_admitted
from windlass.deploy.install.resources import job_kinds


def deployment(*, generation=2, observed=2, updated=2, ready=2):
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": observed, "updatedReplicas": updated, "readyReplicas": ready},
    }


def test_all_replicas_of_the_newest_template_are_ready():
    assert is_ready(deployment())


@pytest.mark.parametrize("behind", [{"observed": 1}, {"updated": 1}, {"ready": 1}])
def test_a_deployment_behind_in_any_count_is_not_ready(behind):
    assert not is_ready(deployment(**behind))


def test_an_unobserved_deployment_is_not_ready():
    assert not is_ready({"metadata": {"generation": 1}, "spec": {"replicas": 1}})


class Server:
    """An API server that answers a dry run with this error, if any."""

    def __init__(self, error=None):
        self.error, self.asked = error, []

    async def request(self, method, path, *, body, params, within):
        self.asked.append((method, path, body["kind"], params, within))
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("answer", [None, ApiError(422, "Invalid"), ApiError(403, "Forbidden")])
def test_an_answer_by_the_rules_of_a_kind_shows_that_it_is_admitted(answer):
    server = Server(answer)
    kinds = job_kinds(crds((OWN,)))
    asyncio.run(wait_until_admitted(server, "team", kinds, within=7.0))
    [asked] = server.asked
    path = "/apis/windlass.dev/v1alpha1/namespaces/team/trainingjobs"
    assert asked == ("POST", path, "TrainingJob", {"dryRun": "All"}, 7.0)


def test_a_kind_that_is_not_admitted_in_time_is_an_error_with_the_reason():
    server = Server(ApiError(503, "ServiceUnavailable", "Resource kind TrainingJob not found"))
    with pytest.raises(InstallError, match="kind TrainingJob after 7 s: Resource kind TrainingJob not found"):
        asyncio.run(wait_until_admitted(server, "team", job_kinds(crds((OWN,))), within=7.0))
