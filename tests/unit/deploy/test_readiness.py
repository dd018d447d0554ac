import pytest

from windlass.deploy.install.readiness import is_ready


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
