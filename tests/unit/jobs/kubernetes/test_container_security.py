"""Containers that Windlass adds to pods meet the pod security standard `restricted`."""

import json

import pytest

from windlass.core.model.job import Role
from windlass.jobs.kubernetes.kinds import mpijob_v1, pytorchjob
from windlass.jobs.kubernetes.pods import agent_pods, code_archive
from windlass.jobs.kubernetes.settings import Settings

USER = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000}


def shipped(**security):
    main = {"name": code_archive.CONTAINER, "securityContext": security}
    return code_archive._security(Role(pod=json.dumps({"spec": {"containers": [main]}})))


CONTAINERS = {
    "the agent": agent_pods._packer(Settings())["securityContext"],
    "the waiter of a PyTorchJob": pytorchjob._waiter("a", Settings())["securityContext"],
    "the code of --ship": shipped(**USER),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_added_container_is_restricted(name):
    context = CONTAINERS[name]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["readOnlyRootFilesystem"] is True
    assert context["runAsNonRoot"] is True


def test_shipped_code_is_unpacked_as_the_programs_user():
    assert shipped(**USER).items() >= USER.items()
    assert not USER.keys() & shipped(privileged=True).keys()
    assert "privileged" not in shipped(privileged=True)
    assert not USER.keys() & code_archive._security(Role()).keys()


def test_the_kubectl_of_an_mpijob_of_v1_has_no_privileges():
    """Its image is not ours: whether it runs as another user than root is not known."""
    context = mpijob_v1._kubectl("ns", "image")["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
