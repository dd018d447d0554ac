"""Rules for templates that name another scheduler, and the pods and PodGroups that follow from them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from windlass.jobs.kubernetes.foreign_schedulers import (
    DEFAULT_RULES,
    JobScheduler,
    SchedulerAction,
    SchedulerRule,
    choose_scheduler,
    parse_scheduler_rules,
)
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import built_in

ADOPT, RESPECT, REFUSE = (SchedulerRule(each) for each in SchedulerAction)


def test_the_default_rules_adopt_the_default_scheduler_and_respect_every_other() -> None:
    assert DEFAULT_RULES.rule_of("default-scheduler") == ADOPT
    assert DEFAULT_RULES.rule_of("volcano") == RESPECT
    assert parse_scheduler_rules("") == DEFAULT_RULES


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("*=refuse", "volcano", REFUSE),
        ("*=refuse", "default-scheduler", ADOPT),
        ("volcano=respect", "volcano", SchedulerRule(SchedulerAction.RESPECT, Dialect.VOLCANO)),
        ("volcano=respect:none", "volcano", RESPECT),
        ("volcano=respect", "other", RESPECT),
        ("plugins = respect", "plugins", SchedulerRule(SchedulerAction.RESPECT, Dialect.COSCHEDULING)),
        ("default-scheduler=respect", "default-scheduler", RESPECT),
        (
            "default-scheduler=respect:native",
            "default-scheduler",
            SchedulerRule(SchedulerAction.RESPECT, Dialect.NATIVE),
        ),
        ("*=adopt,volcano=refuse", "mine", ADOPT),
    ],
)
def test_a_text_changes_rules(text: str, name: str, rule: SchedulerRule) -> None:
    assert parse_scheduler_rules(text).rule_of(name) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("volcano", "expects NAME=ACTION, not 'volcano'"),
        ("=adopt", "expects NAME=ACTION, not '=adopt'"),
        ("volcano=respekt", "does not know 'respekt'; did you mean 'respect'?"),
        ("volcano=adopt:volcano", "volcano=adopt:volcano: only respect has PodGroups"),
        ("*=respect:volcano", "*=respect:volcano: only a scheduler that is named has PodGroups"),
        ("a=respect:jobset", "does not know PodGroups 'jobset'; valid are volcano, coscheduling, native, none"),
        ("windlass=adopt", "windlass is Windlass itself; name another scheduler"),
    ],
)
def test_a_wrong_text_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_scheduler_rules(text)


def test_templates_without_a_name_follow_the_others() -> None:
    assert choose_scheduler(["", ""], DEFAULT_RULES) == JobScheduler()
    assert choose_scheduler(["", "volcano"], DEFAULT_RULES) == JobScheduler("volcano")
    assert choose_scheduler(["default-scheduler", "windlass"], DEFAULT_RULES) == JobScheduler()


def test_a_gang_of_several_schedulers_does_not_start() -> None:
    found = choose_scheduler(["default-scheduler", "volcano"], DEFAULT_RULES)
    assert found.trouble == (
        "its pods are for several schedulers (volcano, windlass), which cannot start them as one gang: "
        "name one schedulerName in all templates"
    )


def test_a_refused_scheduler_is_named_with_what_helps() -> None:
    found = choose_scheduler(["", "volcano"], parse_scheduler_rules("*=refuse"))
    assert found.trouble == (
        "its pods name the scheduler volcano, which this installation refuses: remove schedulerName, "
        "or install Windlass with --foreign-schedulers volcano=adopt or =respect"
    )


# --- pods and PodGroups of every kind -----------------------------------------------------------------

SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
CONTAINERS = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "JAXJob": "jax",
    "PaddleJob": "paddle",
}


def manifest_of(kind: str, version: str, scheduler: str) -> dict[str, Any]:
    pod = {
        "schedulerName": scheduler,
        "containers": [
            {
                "name": CONTAINERS.get(kind, "main"),
                "image": "i",
                "command": ["train"],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    }
    about = {"name": "job", "namespace": "team", "uid": "u-1"}
    head = {"apiVersion": version, "kind": kind, "metadata": about}
    lead = {"MPIJob": {"Launcher": 1}, "XGBoostJob": {"Master": 1}, "PyTorchJob": {"Master": 1}}.get(kind, {})
    specs = {name: {"replicas": count, "template": {"spec": pod}} for name, count in {**lead, "Worker": 2}.items()}
    policy = {"schedulingPolicy": {"minAvailable": 2, "queue": "teams", "scheduleTimeoutSeconds": 60}}
    return {**head, "spec": {"runPolicy": policy, SPECS[kind]: specs}}


KINDS = [
    *((kind, "kubeflow.org/v1") for kind in SPECS),
    ("MPIJob", "kubeflow.org/v2beta1"),
]


def parsed_of(kind: str, version: str, scheduler: str, rules: str) -> ParsedJob:
    settings = Settings(foreign_schedulers=parse_scheduler_rules(rules), runtimes=built_in)
    parsed = registry.read(manifest_of(kind, version, scheduler), settings)
    assert not isinstance(parsed, Fault), parsed
    return parsed


def pods_of(parsed: ParsedJob) -> list[dict[str, Any]]:
    """The pods, and the template of a launcher's Job."""
    made = [each.pod for each in registry.members(parsed, 1)]
    jobs = [each for each in registry.dependent_objects(parsed) if each["kind"] == "Job"]
    return made + [each["spec"]["template"] for each in jobs]


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_every_kind_is_adopted(kind: str, version: str) -> None:
    parsed = parsed_of(kind, version, "default-scheduler", "")
    assert {each["spec"]["schedulerName"] for each in pods_of(parsed)} == {"windlass"}
    assert not [each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup"]


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_every_kind_has_pods_and_a_group_for_volcano(kind: str, version: str) -> None:
    parsed = parsed_of(kind, version, "volcano", "volcano=respect")
    for pod in pods_of(parsed):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "job"
        assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] in ("master", "worker", "launcher")
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert (group["metadata"]["name"], group["metadata"]["ownerReferences"][0]["uid"]) == ("job", "u-1")
    needs = group["spec"].pop("minResources")
    assert (needs["cpu"], needs["memory"]) == ("2", "2Gi")
    assert group["spec"] == {"minMember": 2, "queue": "teams"}


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_every_kind_has_pods_and_a_group_for_scheduler_plugins(kind: str, version: str) -> None:
    parsed = parsed_of(kind, version, "plugins", "plugins=respect")
    for pod in pods_of(parsed):
        assert pod["spec"]["schedulerName"] == "plugins"
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "job"
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    needs = group["spec"].pop("minResources")
    assert (needs["cpu"], needs["memory"]) == ("2", "2Gi")
    assert group["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 60}
    assert parsed.warnings == ()


def test_a_native_group_is_named_in_the_spec_of_pods() -> None:
    parsed = parsed_of("PyTorchJob", "kubeflow.org/v1", "default-scheduler", "default-scheduler=respect:native")
    assert {each["spec"]["schedulingGroup"]["podGroupName"] for each in pods_of(parsed)} == {"job"}
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}


def test_a_scheduler_without_a_rule_of_its_own_has_no_group() -> None:
    parsed = parsed_of("PyTorchJob", "kubeflow.org/v1", "volcano", "")
    assert {each["spec"]["schedulerName"] for each in pods_of(parsed)} == {"volcano"}
    assert not [each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup"]
    assert parsed.warnings == ("schedulingPolicy: scheduleTimeoutSeconds has no effect",)


def test_the_resources_of_a_policy_go_into_the_group() -> None:
    manifest = manifest_of("PyTorchJob", "kubeflow.org/v1", "volcano")
    manifest["spec"]["runPolicy"]["schedulingPolicy"]["minResources"] = {"nvidia.com/gpu": "4"}
    parsed = registry.read(manifest, Settings(foreign_schedulers=parse_scheduler_rules("volcano=respect")))
    assert isinstance(parsed, ParsedJob)
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["spec"]["minResources"] == {"nvidia.com/gpu": "4"}


def replicated(name: str, *after: str) -> dict[str, Any]:
    """A job of a runtime whose pods name Volcano."""
    pod = {"schedulerName": "volcano", "containers": [{"name": name, "image": "i"}]}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer" if name == "node" else name}
    template = {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}
    depends = {"dependsOn": [{"name": each, "status": "Complete"} for each in after]} if after else {}
    return {"name": name, **depends, "template": template}


def test_a_trainjob_follows_its_runtime_and_its_group_is_that_of_the_trainer() -> None:
    jobs = [replicated("dataset-initializer"), replicated("node", "dataset-initializer")]
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "tune"},
        "spec": {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }
    settings = Settings(foreign_schedulers=parse_scheduler_rules("volcano=respect"), runtimes=lambda *_named: runtime)
    about = {"name": "job", "namespace": "team", "uid": "u-1"}
    spec = {"runtimeRef": {"name": "tune"}}
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": about}
    parsed = registry.read({**head, "spec": spec}, settings)
    assert isinstance(parsed, ParsedJob), parsed
    groups = {}
    for pod in pods_of(parsed):
        assert pod["spec"]["schedulerName"] == "volcano"
        noted = pod["metadata"].get("annotations", {})
        groups[pod["metadata"]["name"]] = noted.get("scheduling.k8s.io/group-name")
    assert set(groups.values()) == {None, "job"}
    assert {name for name, group in groups.items() if group} == {name for name in groups if "node" in name}
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["spec"]["minMember"] == 2


def test_a_training_job_names_another_scheduler_in_its_pod() -> None:
    spec = {"image": "i", "command": ["train"], "nodes": 2, "pod": {"spec": {"schedulerName": "volcano"}}}
    about = {"name": "job", "namespace": "team", "uid": "u-1"}
    manifest = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec}
    parsed = registry.read(manifest, Settings(foreign_schedulers=parse_scheduler_rules("volcano=respect")))
    assert isinstance(parsed, ParsedJob), parsed
    assert {pod["spec"]["schedulerName"] for pod in pods_of(parsed)} == {"volcano"}
    (group,) = (each for each in registry.dependent_objects(parsed) if each["kind"] == "PodGroup")
    assert group["spec"]["minMember"] == 2
