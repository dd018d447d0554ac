"""Kinds of the Kubeflow trainer v2: TrainJob, TrainingRuntime, ClusterTrainingRuntime.

Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1. Objects are open where releases of the trainer and of JobSet
have added and removed fields; pod templates in them have the fields of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.deploy.definition import Definition, PrinterColumn, Version
from windlass.deploy.pod_types import partial_type, whole_type
from windlass.deploy.structural_schema import (
    Schema,
    array,
    boolean,
    closed_object,
    integer,
    integer64,
    mapping,
    one_of,
    open_object,
    rule,
    text,
    with_rules,
)
from windlass.jobs.kubernetes.kinds.run_policy import MULTI_KUEUE, WINDLASS_OPERATOR
from windlass.jobs.kubernetes.manifests.known_fields.job_kinds import JOB_TYPES
from windlass.jobs.kubernetes.train_runtimes import TRAIN_JOB

GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"
CONTROLLER = f"{GROUP}/trainjob-controller"
MANAGERS = (CONTROLLER, WINDLASS_OPERATOR, MULTI_KUEUE)
_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


def trainer_kinds() -> list[Definition]:
    """Definitions of the three kinds."""
    return [
        _train_job(),
        _runtime("TrainingRuntime", "trainingruntimes", "trt", namespaced=True),
        _runtime("ClusterTrainingRuntime", "clustertrainingruntimes", "ctrt", namespaced=False),
    ]


def _train_job() -> Definition:
    named = rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
        "metadata.name expects small letters, digits and dashes, a letter first, 63 at most",
    )
    columns = (
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Condition", ".status.conditions[-1:].type"),  # of a job that Kubeflow's trainer has ended
        _AGE,
    )
    version = Version(VERSION, "A job that is created from a runtime.", _train_job_spec(), _status(), columns, (named,))
    return Definition(GROUP, TRAIN_JOB, "trainjobs", ("trj",), (version,))


def _train_job_spec() -> Schema:
    known = open_object(
        runtimeRef=_runtime_ref(),
        trainer=_trainer(),
        initializer=open_object(dataset=open_object(), model=open_object()),
        labels=mapping(text()),
        annotations=mapping(text()),
        podSpecOverrides=array(_override("PodSpecOverride", "PodSpec")),
        podTemplateOverrides=array(_override("PodTemplateOverride", "PodTemplateSpec")),
        runtimePatches=array(open_object(trainingRuntimeSpec=open_object(template=_job_set(partial_type)))),
        activeDeadlineSeconds=integer64(1, "Seconds after which an active job fails."),
        suspend={**boolean("Whether the job is suspended, without pods."), "default": False},
        managedBy=_managed_by(),
    )
    return {**known, "required": ["runtimeRef"]}


def _runtime_ref() -> Schema:
    reference = closed_object(
        {
            "name": text(minLength=1, maxLength=253),
            "apiGroup": {**text(maxLength=253), "default": GROUP},
            "kind": {**text(maxLength=63), "default": "ClusterTrainingRuntime"},
        },
        "Runtime from which the job is created.",
        required=("name",),
    )
    return with_rules(
        reference, rule("self == oldSelf", "runtimeRef cannot be changed; delete the job and make it anew")
    )


def _trainer() -> Schema:
    return open_object(
        "Overrides of the runtime's trainer.",
        image=text(),
        command=array(text()),
        args=array(text()),
        env=array(whole_type("EnvVar")),
        numNodes=integer(0),
        resourcesPerNode=whole_type("ResourceRequirements"),
        numProcPerNode={"x-kubernetes-int-or-string": True},
    )


def _override(name: str, part_of: str) -> Schema:
    """Schema of a type that is a part of another one, for some of a runtime's jobs."""
    fields = {field: each for field, each in partial_type(part_of)["properties"].items() if field in JOB_TYPES[name]}
    return open_object(targetJobs=array(open_object(name=text())), **fields)


def _job_set(fields_of: Callable[[str], Schema]) -> Schema:
    """Template of a JobSet. `fields_of`: schema of a type of Kubernetes, whole or in parts."""
    job = open_object(name=text(), replicas=integer(0), template=fields_of("JobTemplateSpec"))
    spec = open_object(replicatedJobs=array(job))
    return open_object("Template of the job's JobSet.", metadata=fields_of("ObjectMeta"), spec=spec)


def _managed_by() -> Schema:
    known = rule(
        f"self in [{', '.join(map(repr, MANAGERS))}]", f"expects {' or '.join(MANAGERS)}; leave it out for the first"
    )
    stays = rule("self == oldSelf", "cannot be changed; delete the job and make it anew")
    return {**with_rules(text("Controller of the job.", maxLength=100), known, stays), "default": CONTROLLER}


def _status() -> Schema:
    condition = {
        **open_object(type=text(), status=one_of(("True", "False", "Unknown"))),
        "required": ["type", "status"],
    }
    job = {**open_object(name=text()), "required": ["name"]}
    return open_object(
        "Observed state of the job.",
        conditions={**array(condition), **_by("type")},
        jobsStatus={**array(job), **_by("name")},
        state=text("State as shown by windlass queue."),
        windlass=open_object("Internal state of the operator."),
    )


def _by(key: str) -> Schema:
    """List type for items with a key field."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _runtime(kind: str, plural: str, short: str, *, namespaced: bool) -> Definition:
    torch = open_object(numProcPerNode={"x-kubernetes-int-or-string": True}, elasticPolicy=open_object())
    spec = open_object(
        mlPolicy=open_object(numNodes=integer(0), torch=torch, mpi=open_object()),
        podGroupPolicy=open_object(),
        template=_job_set(whole_type),
    )
    version = Version(VERSION, "Template from which jobs are created.", spec, None, (_AGE,), needs_spec=False)
    return Definition(GROUP, kind, plural, (short,), (version,), namespaced=namespaced)
