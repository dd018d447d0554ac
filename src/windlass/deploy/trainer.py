"""The kinds of the Kubeflow trainer v2: TrainJob, TrainingRuntime, ClusterTrainingRuntime.

Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1. What a runtime is made of, a JobSet, passes through untouched.
"""

from __future__ import annotations

from windlass.deploy.definition import Column, Definition, Version
from windlass.deploy.structural import (
    Schema,
    flag,
    listing,
    long,
    mapping,
    opaque,
    record,
    rule,
    text,
    under,
    whole,
    words,
)
from windlass.jobs.kubernetes.kinds.run_policy import MULTI_KUEUE, US

GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"
CONTROLLER = f"{GROUP}/trainjob-controller"
MANAGERS = (CONTROLLER, US, MULTI_KUEUE)
_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def trainer_kinds() -> list[Definition]:
    """All three."""
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
    columns = (Column("State", ".status.state"), _AGE)
    version = Version(VERSION, "A job made of a runtime.", _train_job_spec(), _status(), columns, (named,))
    return Definition(GROUP, "TrainJob", "trainjobs", ("trj",), (version,))


def _train_job_spec() -> Schema:
    """Opaque: from one release to the next fields came, and fields went."""
    known = opaque(
        runtimeRef=_runtime_ref(),
        trainer=_trainer(),
        initializer=opaque(dataset=opaque(), model=opaque()),
        labels=mapping(text()),
        annotations=mapping(text()),
        podTemplateOverrides=listing(opaque()),
        runtimePatches=listing(opaque()),
        activeDeadlineSeconds=long(1, "The job fails when it was active so long."),
        suspend={**flag("No pods while it is true."), "default": False},
        managedBy=_managed_by(),
    )
    return {**known, "required": ["runtimeRef"]}


def _runtime_ref() -> Schema:
    reference = record(
        {
            "name": text(minLength=1, maxLength=253),
            "apiGroup": {**text(maxLength=253), "default": GROUP},
            "kind": {**text(maxLength=63), "default": "ClusterTrainingRuntime"},
        },
        "The runtime that the job is made of.",
        required=("name",),
    )
    return under(reference, rule("self == oldSelf", "runtimeRef cannot be changed; delete the job and make it anew"))


def _trainer() -> Schema:
    return opaque(
        "What of the runtime's trainer is otherwise for this job.",
        image=text(),
        command=listing(text()),
        args=listing(text()),
        env=listing({**opaque(name=text()), "required": ["name"]}),
        numNodes=whole(0),
        resourcesPerNode=opaque(),
        numProcPerNode={"x-kubernetes-int-or-string": True},
    )


def _managed_by() -> Schema:
    known = rule(
        f"self in [{', '.join(map(repr, MANAGERS))}]", f"expects {' or '.join(MANAGERS)}; leave it out for the first"
    )
    stays = rule("self == oldSelf", "cannot be changed; delete the job and make it anew")
    return {**under(text("Who runs the job.", maxLength=100), known, stays), "default": CONTROLLER}


def _status() -> Schema:
    condition = {**opaque(type=text(), status=words(("True", "False", "Unknown"))), "required": ["type", "status"]}
    job = {**opaque(name=text()), "required": ["name"]}
    return opaque(
        "What became of the job.",
        conditions={**listing(condition), **_by("type")},
        jobsStatus={**listing(job), **_by("name")},
        state=text("What windlass queue calls its state."),
        windlass=opaque("What the operator remembers of the job; of no use to anybody else."),
    )


def _by(key: str) -> Schema:
    """A list whose items are told apart by a field."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _runtime(kind: str, plural: str, short: str, *, namespaced: bool) -> Definition:
    torch = opaque(numProcPerNode={"x-kubernetes-int-or-string": True}, elasticPolicy=opaque())
    spec = opaque(
        mlPolicy=opaque(numNodes=whole(0), torch=torch, mpi=opaque()),
        podGroupPolicy=opaque(),
        template=opaque("The JobSet that a job becomes.", metadata=opaque(), spec=opaque()),
    )
    version = Version(VERSION, "What jobs are made of.", spec, None, (_AGE,), needs_spec=False)
    return Definition(GROUP, kind, plural, (short,), (version,), namespaced=namespaced)
