"""Manifests with one error each, and the message of their refusal."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

MISSING = object()


class Malformed(NamedTuple):
    name: str
    manifest: dict[str, Any]
    sentence: str
    read_too: bool = True
    """Whether our own reader refuses it as well. The API server is stricter only in `narrower`."""


class Kind(NamedTuple):
    version: str
    kind: str
    specs: str
    lead: str
    container: str
    types: str
    fewest: int


KINDS = (
    Kind("v1", "PyTorchJob", "pytorchReplicaSpecs", "Master", "pytorch", "Master, Worker", 1),
    Kind("v1", "TFJob", "tfReplicaSpecs", "Chief", "tensorflow", "Chief, Master, PS, Evaluator, Worker", 0),
    Kind("v1", "JAXJob", "jaxReplicaSpecs", "Worker", "jax", "Worker", 1),
    Kind("v1", "XGBoostJob", "xgbReplicaSpecs", "Master", "xgboost", "Master, Worker", 0),
    Kind("v1", "PaddleJob", "paddleReplicaSpecs", "Master", "paddle", "Master, Worker", 1),
    Kind("v1", "MPIJob", "mpiReplicaSpecs", "Launcher", "any", "Launcher, Worker", 0),
    Kind("v2beta1", "MPIJob", "mpiReplicaSpecs", "Launcher", "any", "Launcher, Worker", 0),
)
A_FLAG, A_TEXT, A_NUMBER = "must be of type boolean", "must be of type string", "must be of type integer"
ONE_OF = "supported values"
A_MAPPING, A_BOOLEAN = "must have at most 0 items", "must not validate the schema (not)"
TOO_SMALL = "should be greater than or equal to"
TOO_LARGE = "should be less than or equal to"
A_NAME = "metadata.name expects small letters, digits and dashes"
TOO_LONG = "with the replicas' type and number it must be a DNS label of 63 characters"

RUN_POLICY = (
    ("cleanPodPolicy", "Sometimes", ONE_OF),
    ("cleanPodPolicy", True, A_TEXT),
    ("ttlSecondsAfterFinished", -1, TOO_SMALL),
    ("ttlSecondsAfterFinished", "1h", A_NUMBER),
    ("activeDeadlineSeconds", -1, TOO_SMALL),
    ("activeDeadlineSeconds", 1.5, A_NUMBER),
    ("backoffLimit", -1, TOO_SMALL),
    ("backoffLimit", 2**31, TOO_LARGE),
    ("suspend", "yes", A_FLAG),
    ("managedBy", "somebody", "leave it out for the operator that serves the kind"),
    ("restartMode", "whole", ONE_OF),
    ("schedulingPolicy", [], "must be of type object"),
    ("schedulingPolicy", {"minAvailable": -1}, TOO_SMALL),
    ("schedulingPolicy", {"queue": 7}, A_TEXT),
)
REPLICA = (
    (("replicas",), -1, TOO_SMALL),
    (("replicas",), "two", A_NUMBER),
    (("replicas",), 100_001, TOO_LARGE),
    (("restartPolicy",), "Sometimes", ONE_OF),
    (("restartPolicy",), 3, A_TEXT),
    (("template",), MISSING, "Required value"),
    (("template",), [], "must be of type object"),
    (("template", "spec"), MISSING, "Required value"),
    (("template", "metadata"), {"labels": {"a": 1}}, A_TEXT),
    (("template", "spec", "containers"), MISSING, "Required value"),
    (("template", "spec", "containers"), [], "should have at least 1 items"),
    (("template", "spec", "containers", 0, "name"), MISSING, "Required value"),
    (("template", "spec", "containers", 0, "image"), MISSING, "Required value"),
    (("template", "spec", "containers", 0, "image"), "", "should be at least 1 chars long"),
    (("template", "spec", "containers", 0, "command"), "python train.py", "must be of type array"),
    (("template", "spec", "containers", 0, "args"), [3], A_TEXT),
    (("template", "spec", "containers", 0, "env"), [{"name": 3}], A_TEXT),
    (("template", "spec", "containers", 0, "ports"), [{"containerPort": 0}], TOO_SMALL),
    (("template", "spec", "containers", 0, "ports"), [{"name": "a"}], "Required value"),
    (("template", "spec", "containers", 0, "resources"), {"limits": {"cpu": "much"}}, "should match"),
    (("template", "spec", "containers", 0, "resources"), {"limits": {"nvidia.com/gpu": -1}}, TOO_SMALL),
    (
        ("template", "spec", "containers", 0, "resources"),
        {"limits": {"cpu": True}},
        A_BOOLEAN,
    ),
    (("template", "spec", "initContainers"), [{"image": "i"}], "Required value"),
    (("template", "spec", "volumes"), {}, "must be of type array"),
    (("template", "spec", "nodeSelector"), {"gpu": True}, A_TEXT),
    (("template", "spec", "tolerations"), [{"operator": "Perhaps"}], ONE_OF),
    (("template", "spec", "hostNetwork"), "no", A_FLAG),
    (("template", "spec", "terminationGracePeriodSeconds"), -1, TOO_SMALL),
)


def replica(container: str, **more: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": container, "image": "i"}]}}, **more}


def whole(kind: Kind) -> dict[str, Any]:
    """The smallest valid job of a kind."""
    specs = {kind.lead: replica(kind.container, replicas=1)}
    return {
        "apiVersion": f"kubeflow.org/{kind.version}",
        "kind": kind.kind,
        "metadata": {"name": "any", "namespace": "default"},
        "spec": {kind.specs: specs, "runPolicy": {}},
    }


def changed(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(manifest)
    spot: Any = made
    for part in path[:-1]:
        spot = spot[part]
    if value is MISSING:
        del spot[path[-1]]
    else:
        spot[path[-1]] = value
    return made


def jobs() -> Iterator[Malformed]:
    for kind in KINDS:
        job = whole(kind)
        lead = ("spec", kind.specs, kind.lead)
        name = f"{kind.kind} {kind.version}"
        for field, value, sentence in RUN_POLICY:
            yield Malformed(f"{name} {field}={value}", changed(job, ("spec", "runPolicy", field), value), sentence)
        for path, value, sentence in REPLICA:
            yield Malformed(f"{name} {path[-1]}={value}", changed(job, (*lead, *path), value), sentence)
        for what, manifest, sentence in _of_types(kind, job):
            yield Malformed(f"{name} {what}", manifest, sentence)


def _of_types(kind: Kind, job: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    specs, one = ("spec", kind.specs), replica(kind.container, replicas=1)
    yield "no types", changed(job, specs, {}), f"expects {kind.types.replace(', ', ' and ')}, one of them at least"
    yield "no specs", changed(job, specs, MISSING), "Required value"
    yield "no spec", changed(job, ("spec",), MISSING), "Required value"
    valid = f"'Boss' is no replica type of this kind; valid are {kind.types}"
    yield "unknown type", changed(job, (*specs, "Boss"), one), valid
    yield "bad name", changed(job, ("metadata", "name"), "3.job"), A_NAME
    yield "long name", changed(job, ("metadata", "name"), "a" * 60), TOO_LONG
    if kind.fewest:
        none = changed(job, (*specs, "Worker"), {**one, "replicas": 0})
        yield "no workers", none, "must be at least 1; leave the type out instead"
    else:
        none = changed(job, (*specs, kind.lead, "replicas"), 0)
        single = f"replicas must be 1: a job has one {kind.lead}"
        yield "no pods", none, "asks for no pods at all" if kind.kind == "TFJob" else single
    if kind.kind not in ("TFJob", "JAXJob", "PaddleJob"):
        two = changed(job, (*specs, kind.lead, "replicas"), 2)
        yield "two leads", two, f"replicas must be 1: a job has one {kind.lead}"
    if kind.kind in ("XGBoostJob", "MPIJob"):
        alone = changed(job, specs, {"Worker": one})
        yield "no lead", alone, f"has no {kind.lead}; every job of this kind has one"
    if kind.kind == "MPIJob":
        yield "small letters", changed(job, (*specs, "worker"), one), "'worker' is no replica type of this kind"
    else:
        twice = changed(job, (*specs, kind.lead.lower()), one)
        yield "twice", twice, "has a type a second time, in small and in capital letters; write it once"
        other = changed(job, (*specs, kind.lead), replica("other", replicas=1))
        fix = f"rename the one that trains to '{kind.container}'"
        yield "other container", other, f"no container is called '{kind.container}'; {fix}"


def _spec(kind: str, spec: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    job = whole(next(each for each in KINDS if (each.kind, each.version) == (kind, version)))
    return {**job, "spec": {**job["spec"], **spec}}


def particular() -> Iterator[Malformed]:
    """Manifests with errors that only one kind can have."""
    worker = {"Worker": replica("pytorch", replicas=2)}
    paddle = {"Worker": replica("paddle", replicas=2)}
    chiefs = {name: replica("tensorflow", replicas=1) for name in ("Chief", "master")}
    needs = "elasticPolicy needs a Worker"
    cases: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        ("PyTorchJob", "v1", {"nprocPerNode": "many"}, "expects a number, auto, cpu, gpu or xpu"),
        ("PyTorchJob", "v1", {"nprocPerNode": "0"}, "expects a number, auto, cpu, gpu or xpu"),
        ("PyTorchJob", "v1", {"nprocPerNode": 2}, A_TEXT),
        ("PyTorchJob", "v1", {"elasticPolicy": {}}, needs),
        ("PaddleJob", "v1", {"elasticPolicy": {}}, needs),
        (
            "PyTorchJob",
            "v1",
            {"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}, "pytorchReplicaSpecs": worker},
            "minReplicas must be at most maxReplicas",
        ),
        (
            "PaddleJob",
            "v1",
            {"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}, "paddleReplicaSpecs": paddle},
            "minReplicas must be at most maxReplicas",
        ),
        (
            "PyTorchJob",
            "v1",
            {"elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "2", "pytorchReplicaSpecs": worker},
            "elasticPolicy.nProcPerNode says the same as nprocPerNode; keep that one",
        ),
        *(
            ("PyTorchJob", "v1", {"elasticPolicy": policy, "pytorchReplicaSpecs": worker}, sentence)
            for policy, sentence in (
                ({"minReplicas": 0}, TOO_SMALL),
                ({"maxReplicas": "3"}, A_NUMBER),
                ({"rdzvPort": 0}, TOO_SMALL),
                ({"rdzvPort": 65_536}, TOO_LARGE),
                ({"rdzvConf": [{"key": 1}]}, A_TEXT),
                ({"standalone": "true"}, A_FLAG),
                ({"maxRestarts": -1}, TOO_SMALL),
                ({"nProcPerNode": 0}, "nProcPerNode expects a whole number, 1 or more"),
                ({"metrics": {}}, "must be of type array"),
            )
        ),
        ("TFJob", "v1", {"successPolicy": "SomeWorkers"}, ONE_OF),
        ("TFJob", "v1", {"enableDynamicWorker": "yes"}, A_FLAG),
        ("TFJob", "v1", {"tfReplicaSpecs": chiefs}, "has a Chief and a Master, which are the same thing"),
        *(
            ("MPIJob", version, spec, sentence)
            for version in ("v1", "v2beta1")
            for spec, sentence in (
                ({"slotsPerWorker": -1}, TOO_SMALL),
                ({"slotsPerWorker": 10_001}, TOO_LARGE),
                ({"slotsPerWorker": "2"}, A_NUMBER),
            )
        ),
        ("MPIJob", "v1", {"cleanPodPolicy": "Never"}, ONE_OF),
        ("MPIJob", "v1", {"mainContainer": 1}, A_TEXT),
        ("MPIJob", "v2beta1", {"mpiImplementation": "LAM"}, ONE_OF),
        ("MPIJob", "v2beta1", {"launcherCreationPolicy": "Later"}, ONE_OF),
        ("MPIJob", "v2beta1", {"runLauncherAsWorker": 1}, A_FLAG),
        ("MPIJob", "v2beta1", {"sshAuthMountPath": 1}, A_TEXT),
        ("MPIJob", "v2beta1", {"mpiReplicaSpecs": {"Launcher": replica("a", restartPolicy="Always")}}, ONE_OF),
        ("MPIJob", "v2beta1", {"mpiReplicaSpecs": {"Launcher": replica("a", restartPolicy="ExitCode")}}, ONE_OF),
    )
    for kind, version, spec, sentence in cases:
        yield Malformed(f"{kind} {version} {spec}"[:90], _spec(kind, spec, version), sentence)


def own() -> Iterator[Malformed]:
    """TrainingJobs, whose reader is that of job files."""
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "must validate at least one schema (anyOf)"),
        ({"command": ""}, "should match"),
        ({"command": []}, "should have at least 1 items"),
        ({"command": {"a": 1}}, A_MAPPING),
        ({"nodes": 0}, TOO_SMALL),
        ({"nodes": "two"}, A_NUMBER),
        ({"nodes": 2, "elastic": {"min": 1, "max": 2}}, "nodes and elastic say the same thing; keep one"),
        ({"elastic": {"min": 3, "max": 2}}, "min must be at most max"),
        ({"elastic": {"min": 3}}, "Required value"),
        ({"gpus": -1}, TOO_SMALL),
        ({"gpus": 1.5}, A_NUMBER),
        ({"mig": "half"}, "should match"),
        ({"cpus": "many"}, "should match"),
        ({"cpus": -1}, TOO_SMALL),
        ({"mem": "16 GB"}, "should match"),
        ({"mem": 16}, TOO_SMALL),
        ({"env": ["A=b"]}, "must be of type object"),
        ({"env": {"A": ["b"]}}, "must have at most 0 items"),
        ({"env": {"A": {"b": 1}}}, A_MAPPING),
        ({"tolerations": [{"operator": "Perhaps"}]}, ONE_OF),
        ({"topology": {"preferred": True}}, "Required value"),
        ({"gpu_type": "H 100"}, "should match"),
        ({"gpu_type": ["H100", "A 100"]}, "should match"),
        ({"affinity": ["zone in"]}, "should match"),
        ({"whole_node": "yes"}, A_FLAG),
        ({"launcher": "srun"}, ONE_OF),
        ({"queue": "Team A"}, "should match"),
        ({"priority": "high"}, A_NUMBER),
        ({"time": "3600"}, "should match"),
        ({"time": "0s"}, "expects more than no time at all"),
        ({"deadline": 3600}, A_TEXT),
        ({"grace": "a minute"}, "should match"),
        ({"restarts": -1}, TOO_SMALL),
        ({"restarts": 3, "restart": {"user": 2}}, "restarts and restart.user say the same thing; keep one"),
        ({"restart": {"fatal_exit_codes": [0]}}, TOO_SMALL),
        ({"array": "0-3"}, "hand it in with windlass submit, which makes an object of each"),
        ({"suspend": 1}, A_FLAG),
        ({"pod": []}, "must be of type object"),
        ({"image": "a b"}, "should match"),
        ({"roles": {"A": {}}}, "expects names of the form"),
        ({"roles": {"a": {}}, "nodes": 2}, "nodes beside roles: nodes and elastic are in the roles then"),
        ({"roles": {"a": {"replicas": 2, "elastic": {"min": 1, "max": 2}}}}, "replicas and elastic say the same thing"),
        (
            {"roles": {name: {"elastic": {"min": 1, "max": 2}} for name in "ab"}},
            "only one role may be elastic; give the others replicas",
        ),
    )
    for spec, sentence in cases:
        command = {} if "command" in spec or not spec else {"command": "true"}
        manifest = {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "any", "namespace": "default"},
            "spec": {"image": "i", **command, **spec} if spec else {},
        }
        yield Malformed(f"TrainingJob {spec}"[:90], manifest, sentence)
    named = {"command": "true", "image": "i"}
    bad = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "spec": named}
    yield Malformed("TrainingJob name", {**bad, "metadata": {"name": "a.b", "namespace": "default"}}, A_NAME)


def settings() -> Iterator[Malformed]:
    """Objects of administrators. The reader of cluster files does not check them."""
    repair = {"nodes": ["n1"], "start": "2026-11-22T08:00Z", "end": "2026-11-22T18:00Z"}
    cases: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        ("Queue", "a", {"weight": 0}, TOO_SMALL),
        ("Queue", "a", {"quota": {"gpu": -1}}, TOO_SMALL),
        ("Queue", "a", {"quota": {"memory": "much"}}, "should match"),
        ("Queue", "a", {"parent": "a"}, "parent is the queue itself"),
        ("Queue", "a", {"parent": "A B"}, "should match"),
        ("Queue", "a", {"half_life": "long"}, "should match"),
        ("Queue", "a", {"max_running": -1}, TOO_SMALL),
        ("Queue", "a", {"borrowing": 3}, "must be of type object"),
        ("Queue", "a", {"max_priority": 2_000_000_000}, "should be less than or equal to 1000000000"),
        ("Queue", "a", {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, ONE_OF),
        ("SchedulingPolicy", "other", {}, "there is one policy for a cluster; call it default"),
        ("SchedulingPolicy", "default", {"order": "chaos"}, ONE_OF),
        ("SchedulingPolicy", "default", {"reservations": -2}, TOO_SMALL),
        ("SchedulingPolicy", "default", {"preempt": "no"}, A_FLAG),
        ("SchedulingPolicy", "default", {"topology": [{"level": "rack"}]}, "Required value"),
        (
            "Reservation",
            "a",
            {**repair, "nodes": {"a": 1}},
            A_MAPPING,
        ),
        ("Reservation", "a", {**repair, "start": "tomorrow"}, "should match"),
        ("Reservation", "a", {"nodes": ["n1"]}, "Required value"),
    )
    for kind, name, spec, sentence in cases:
        about = {"apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
        yield Malformed(f"{kind} {spec}"[:90], {**about, "spec": spec}, sentence, read_too=False)


def malformed() -> list[Malformed]:
    return [*jobs(), *particular(), *own(), *settings()]
