"""The check of the schedulers that templates name."""

from __future__ import annotations

from typing import Any

from windlass.deploy.install.findings import Severity
from windlass.deploy.install.scheduler_check import findings_of_schedulers, rules_of
from windlass.deploy.operator import Setup, operator_objects
from windlass.jobs.kubernetes.foreign_schedulers import DEFAULT_RULES, parse_scheduler_rules


def job(name: str, scheduler: str, *, ended: bool = False) -> dict[str, Any]:
    pod = {"containers": [], **({"schedulerName": scheduler} if scheduler else {})}
    done = {"conditions": [{"type": "Succeeded", "status": "True"}]} if ended else {}
    specs = {"Worker": {"template": {"spec": pod}}}
    about = {"namespace": "team", "name": name}
    return {"kind": "PyTorchJob", "metadata": about, "spec": {"pytorchReplicaSpecs": specs}, "status": done}


def test_jobs_of_our_scheduler_and_ended_jobs_are_no_finding() -> None:
    jobs = [job("a", ""), job("b", "windlass"), job("c", "volcano", ended=True)]
    (found,) = findings_of_schedulers(DEFAULT_RULES, jobs)
    assert found.severity is Severity.OK
    assert found.message == "no template names another scheduler (default-scheduler=adopt, *=respect)"


def test_each_named_scheduler_is_a_finding_with_what_becomes_of_its_jobs() -> None:
    rules = parse_scheduler_rules("volcano=respect,old=refuse")
    jobs = [job("a", "default-scheduler"), job("b", "old"), *(job(f"v{n}", "volcano") for n in range(5))]
    found = {each.message.partition(" ")[0]: each for each in findings_of_schedulers(rules, jobs)}
    assert {name: each.severity for name, each in found.items()} == {
        "default-scheduler": Severity.OK,
        "old": Severity.WARNING,
        "volcano": Severity.OK,
    }
    assert found["default-scheduler"].message == (
        "default-scheduler is named by PyTorchJob team/a: adopt, Windlass places the pods"
    )
    assert found["volcano"].message == (
        "volcano is named by PyTorchJob team/v0, PyTorchJob team/v1, PyTorchJob team/v2 and 2 more: respect, "
        "that scheduler places the pods, Windlass only admits them, with PodGroups of volcano"
    )
    assert found["old"].fix == "remove schedulerName, or windlass operator install --foreign-schedulers old=ACTION"


def test_templates_of_runtimes_count() -> None:
    inner = {"spec": {"template": {"spec": {"containers": [], "schedulerName": "volcano"}}}}
    spec = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": inner}]}}}
    runtime = {"kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"}, "spec": spec}
    (found,) = findings_of_schedulers(DEFAULT_RULES, [runtime])
    assert found.message.startswith("volcano is named by ClusterTrainingRuntime torch: respect")


def test_the_rules_are_those_of_the_installed_operator() -> None:
    chosen = Setup("image", foreign_schedulers="*=refuse")
    deployment = next(each for each in operator_objects(chosen) if each["kind"] == "Deployment")
    assert rules_of(deployment) == parse_scheduler_rules("*=refuse")
    assert rules_of(None) == DEFAULT_RULES
