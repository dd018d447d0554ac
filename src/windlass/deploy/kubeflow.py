"""Kinds of Kubeflow's training operator, MPI operator and notebook controller, with the rules of Windlass.

Sources: kubeflow/training-operator v1.9 and kubeflow/mpi-operator v0.8, manifests/base and pkg/webhooks;
kubeflow/kubeflow (Apache-2.0), components/notebook-controller/api/v1. Names, columns
and scale subresources are those of the originals. So the column State shows jobs that those operators have ended.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.deploy.definition import Definition, PrinterColumn, ScaleSubresource, Version
from windlass.deploy.pod_schema import template_schema
from windlass.deploy.policy_schema import MANAGED_BY_STAYS, run_policy_schema
from windlass.deploy.replica_schema import count_of, is_type, replica_specs_schema
from windlass.deploy.status_schema import notebook_status_schema, status_schema
from windlass.deploy.structural_schema import (
    Rule,
    Schema,
    array,
    boolean,
    closed_object,
    integer,
    one_of,
    open_object,
    rule,
    text,
    with_rules,
)
from windlass.jobs.kubernetes.kinds import jaxjob, mpijob_v1, mpijob_v2, paddlejob, pytorchjob, tfjob, xgboostjob
from windlass.jobs.kubernetes.kinds.mpijob_parts import DIALECTS, V1, V2
from windlass.jobs.kubernetes.kinds.pytorchjob import PROCS
from windlass.jobs.kubernetes.kinds.replica_specs import RESTART_POLICIES, ReplicaTypes
from windlass.jobs.kubernetes.kinds.run_policy import CLEAN_POD_POLICIES
from windlass.jobs.syntax.names import DNS_LABEL, MAX_DNS_LABEL
from windlass.launch.mpi import IMPLEMENTATIONS

GROUP = "kubeflow.org"
COLUMNS = (
    PrinterColumn("State", ".status.conditions[-1:].type"),
    PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    PrinterColumn("Reason", ".status.conditions[-1:].reason", wide=True),
)


def kubeflow_kinds() -> list[Definition]:
    """PyTorchJob, TFJob, JAXJob, XGBoostJob, PaddleJob, MPIJob and Notebook."""
    return [
        _operator("PyTorchJob", "ptj", pytorchjob.TYPES, _pytorch(), _elastic_rules(pytorchjob.TYPES), scales=True),
        _operator("TFJob", "tfj", tfjob.TYPES, _tensorflow(), [_one_chief()]),
        _operator("JAXJob", "jaxj", jaxjob.TYPES, {}, [], scales=True),
        _operator("XGBoostJob", "xgbj", xgboostjob.TYPES, {}, []),
        _operator("PaddleJob", "pdj", paddlejob.TYPES, _paddle(), _elastic_rules(paddlejob.TYPES), scales=True),
        _mpi(),
        _notebook(),
    ]


def _operator(
    kind: str, short: str, types: ReplicaTypes, fields: dict[str, Schema], rules: list[Rule], *, scales: bool = False
) -> Definition:
    version = Version(
        "v1",
        f"A {kind}: one gang of pods.",
        _spec(types, fields, rules),
        status_schema(),
        COLUMNS,
        _names(types),
        _scale(types.specs) if scales else None,
    )
    return Definition(GROUP, kind, f"{kind.lower()}s", (short,), (version,))


def _spec(
    types: ReplicaTypes, fields: dict[str, Schema], rules: list[Rule], restarts: tuple[str, ...] = RESTART_POLICIES
) -> Schema:
    known = {**fields, types.specs: replica_specs_schema(types, restarts), "runPolicy": run_policy_schema()}
    return with_rules(closed_object(known, required=(types.specs,)), MANAGED_BY_STAYS, *rules)


def _names(types: ReplicaTypes) -> tuple[Rule, ...]:
    """Rules on the name: pods and services are named by the job's name, the type and an index, as a DNS label."""
    specs = f"self.spec.{types.specs}"
    count = count_of(types, specs, "t")
    last = f"size(string({count} > 0 ? {count} - 1 : 0))"
    return (
        rule(
            f"self.metadata.name.matches('^{DNS_LABEL}$')",
            "metadata.name expects small letters, digits and dashes, a letter first, 63 at most: "
            "services are named by it",
        ),
        rule(
            f"{specs}.all(t, size(self.metadata.name) + size(t) + {last} + 2 <= {MAX_DNS_LABEL})",
            "metadata.name is too long: with the replicas' type and number it must be a DNS label of 63 characters",
        ),
    )


def _scale(specs: str) -> ScaleSubresource:
    workers = ".status.replicaStatuses.Worker"
    return ScaleSubresource(f".spec.{specs}.Worker.replicas", f"{workers}.active", f"{workers}.selector")


def _pytorch() -> dict[str, Schema]:
    procs = rule(
        f"self in [{', '.join(map(repr, PROCS))}] || self.matches('^0{{0,4}}[1-9][0-9]{{0,4}}$')",
        f"expects a number, {', '.join(PROCS[:-1])} or {PROCS[-1]}",
    )
    twice = rule("!has(self.nProcPerNode) || self.nProcPerNode >= 1", "nProcPerNode expects a whole number, 1 or more")
    elastic = {
        "rdzvBackend": text("Rendezvous backend of the workers; default c10d."),
        "rdzvPort": integer(1, 65535),
        "rdzvHost": text(),
        "rdzvId": text(),
        "rdzvConf": array(closed_object({"key": text(), "value": text()})),
        "standalone": boolean(),
        "nProcPerNode": integer(0),
        "maxRestarts": integer(0),
    }
    return {
        "nprocPerNode": with_rules(text("Ranks of each pod: a number, auto, cpu, gpu or xpu.", maxLength=5), procs),
        "elasticPolicy": with_rules(_elastic(elastic), twice),
    }


def _paddle() -> dict[str, Schema]:
    return {"elasticPolicy": _elastic({"maxRestarts": integer(0)})}


def _elastic(fields: dict[str, Schema]) -> Schema:
    sizes = {"minReplicas": integer(1), "maxReplicas": integer(1), "metrics": array(open_object())}
    ordered = rule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas must be at most maxReplicas",
    )
    return with_rules(closed_object({**sizes, **fields}, "Minimum and maximum number of workers."), ordered)


def _elastic_rules(types: ReplicaTypes) -> list[Rule]:
    has_worker = f"self.{types.specs}.exists(t, {is_type(types, 't', 'Worker')})"
    needs = f"elasticPolicy needs a Worker in {types.specs}: workers are what come and go"
    rules = [rule(f"!has(self.elasticPolicy) || {has_worker}", needs)]
    if types is pytorchjob.TYPES:
        same = "elasticPolicy.nProcPerNode says the same as nprocPerNode; keep that one"
        has_two = "has(self.elasticPolicy) && has(self.elasticPolicy.nProcPerNode) && has(self.nprocPerNode)"
        rules.append(rule(f"!({has_two})", same))
    return rules


def _tensorflow() -> dict[str, Schema]:
    return {
        "successPolicy": one_of(("", "AllWorkers"), "Empty: the job succeeds with its first worker."),
        "enableDynamicWorker": boolean("Whether the number of workers may change."),
    }


def _one_chief() -> Rule:
    """Rule against both of two types of which a job may have one."""
    has = [f"self.tfReplicaSpecs.exists(t, {is_type(tfjob.TYPES, 't', name)})" for name in (tfjob.CHIEF, tfjob.MASTER)]
    return rule(
        f"!({' && '.join(has)})",
        "tfReplicaSpecs has a Chief and a Master, which are the same thing; keep the Chief",
    )


def _mpi() -> Definition:
    """Versions of both operators in one definition, because a kind has only one.

    There is no conversion: the API server changes only `apiVersion`. `spec.dialect` therefore tells which version was
    meant; each version fills it in with its own name when an object is created through it.
    """
    v1 = Version(
        V1,
        "An MPIJob of the training operator: the launcher reaches its workers by kubectl exec.",
        _spec(mpijob_v1.TYPES, _mpi_fields(V1), []),
        status_schema(),
        COLUMNS,
        _names(mpijob_v1.TYPES),
        stored=False,
    )
    v2 = Version(
        V2,
        "An MPIJob of the MPI operator: the launcher reaches its workers by SSH.",
        _spec(mpijob_v2.TYPES, _mpi_fields(V2), [], ("Never", "OnFailure")),
        status_schema(),
        COLUMNS,
        _names(mpijob_v2.TYPES),
    )
    return Definition(GROUP, "MPIJob", "mpijobs", ("mpij",), (v1, v2))


def _notebook() -> Definition:
    """Both versions have the same fields, so that the API server changes only `apiVersion`."""
    spec = closed_object({"template": template_schema()}, required=("template",))
    version = Version("v1", "A Notebook: one pod that serves Jupyter.", spec, notebook_status_schema(), COLUMNS)
    return Definition(GROUP, "Notebook", "notebooks", (), (version, replace(version, name="v1beta1", stored=False)))


def _mpi_fields(dialect: str) -> dict[str, Schema]:
    """Fields of both versions: a field that one version lacks would be lost when an object is read through it."""
    stays = rule("self == oldSelf", "cannot be changed: it is the version that the job was made with")
    about = "Operator whose meaning the job has. Leave it out: the API version decides."
    return {
        "dialect": with_rules({**one_of(DIALECTS, about), "default": dialect}, stays),
        "slotsPerWorker": integer(0, 10_000, "Ranks of each worker; default 1."),
        "cleanPodPolicy": one_of(
            ("", *CLEAN_POD_POLICIES), "v1: the field of this name in runPolicy takes precedence."
        ),
        "mainContainer": text("v1: container in which a worker's ranks start."),
        "runLauncherAsWorker": boolean("v2beta1: whether the launcher is a worker too."),
        "sshAuthMountPath": text("v2beta1: mount path of the SSH keys; default /root/.ssh."),
        "launcherCreationPolicy": one_of(
            ("", "AtStartup", "WaitForWorkersReady"), "v2beta1: when the launcher is created."
        ),
        "mpiImplementation": one_of(("", *IMPLEMENTATIONS), "v2beta1; default OpenMPI."),
    }
