"""The check of webhooks that Kubeflow's operators have left."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.deploy.install.findings import Severity
from windlass.deploy.install.webhook_check import findings_of_webhooks, has_endpoints, kubeflow_services

VALIDATING = "ValidatingWebhookConfiguration"
SERVICE = ("kubeflow", "training-operator")


def webhook(*plurals: str, group: str = "kubeflow.org", **more: Any) -> dict[str, Any]:
    """A webhook as in the manifests of training-operator 1.9."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [*plurals]}
    service = {"namespace": SERVICE[0], "name": SERVICE[1], "path": "/validate"}
    return {"name": "a.b.c", "clientConfig": {"service": service}, "rules": [rule], **more}


def configuration(*webhooks: dict[str, Any], name: str = "validator.training-operator.kubeflow.org") -> dict[str, Any]:
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


def test_a_webhook_without_a_server_is_an_error_with_the_command_that_deletes_it() -> None:
    left = configuration(webhook("pytorchjobs", failurePolicy="Fail"), webhook("tfjobs"))
    (found,) = findings_of_webhooks([(VALIDATING, left)], [])
    assert (found.about, found.severity) == ("webhooks", Severity.ERROR)
    assert found.message == (
        "ValidatingWebhookConfiguration validator.training-operator.kubeflow.org asks kubeflow/training-operator, "
        "which has no endpoint: every creation and change of pytorchjobs, tfjobs is refused"
    )
    assert found.fix == "kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org"


def test_a_webhook_whose_operator_still_answers_is_a_warning_with_the_same_command() -> None:
    runtimes = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
    left = configuration(webhook(*runtimes, group="trainer.kubeflow.org"), name="validator.trainer.kubeflow.org")
    (found,) = findings_of_webhooks([(VALIDATING, left)], [SERVICE])
    assert found.severity is Severity.WARNING
    assert "once that does not answer, every creation and change of clustertrainingruntimes" in found.message
    assert found.fix == "kubectl delete validatingwebhookconfiguration validator.trainer.kubeflow.org"


@pytest.mark.parametrize(
    "other",
    [
        configuration(),
        configuration(webhook("pytorchjobs", failurePolicy="Ignore")),
        configuration(webhook("pytorchjobs"), webhook("jobs", group="batch")),  # Kueue's
        configuration(webhook("profiles")),  # Kubeflow's profiles are in the same API group
        configuration(webhook("*")),
        configuration(webhook("pytorchjobs", group="*")),
        configuration(webhook("pytorchjobs", clientConfig={"url": "https://example.com"})),
    ],
    ids=["empty", "ignored-failures", "kueue", "profiles", "all-resources", "all-groups", "url"],
)
def test_a_webhook_that_others_need_or_that_refuses_nothing_is_no_finding(other: dict[str, Any]) -> None:
    assert not kubeflow_services(other)
    (found,) = findings_of_webhooks([(VALIDATING, other)], [])
    assert (found.severity, found.fix) == (Severity.OK, "")


def test_an_endpoint_that_is_not_ready_does_not_answer() -> None:
    assert not has_endpoints([])
    assert not has_endpoints([{"endpoints": None}, {"endpoints": [{"conditions": {"ready": False}}]}])
    assert has_endpoints([{"endpoints": [{"conditions": {"ready": False}}, {"conditions": {}}]}])
