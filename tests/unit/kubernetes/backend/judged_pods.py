"""Judges the pods of a job that restart one by one: decisions, conditions and counts that follow from them."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import yaml
from member_stage import Stage

from windlass.core.lifecycle import events as e
from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.status.conditions import conditions_of, end_of

JOB = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: i}]}}}
""")
FIELDS = {
    "TFJob": ("tf", "tensorflow"),
    "JAXJob": ("jax", "jax"),
    "XGBoostJob": ("xgb", "xgboost"),
    "MPIJob": ("mpi", "m"),
}
NAMES = ("digits-master-0", "digits-worker-0", "digits-worker-1")


def pytorch(*, policy="OnFailure", workers_alone=False, status=None, elastic=False, **run_policy):
    manifest = copy.deepcopy(JOB)
    specs = manifest["spec"]["pytorchReplicaSpecs"]
    for replicas in specs.values():
        replicas["restartPolicy"] = policy
    if workers_alone:
        del specs["Master"]
    if elastic:
        manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2}
    return {**manifest, "spec": {**manifest["spec"], "runPolicy": run_policy}, "status": status}


def other(kind, roles, version="v1", **spec):
    """A job of another kind, named digits, with this number of replicas in each role."""
    field, container = FIELDS[kind]
    template = {"spec": {"containers": [{"name": container, "image": "i"}]}}
    replicas = {role: {"replicas": count, "template": template} for role, count in roles.items()}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "digits"},
        "spec": {f"{field}ReplicaSpecs": replicas, **spec},
    }


def pod(name, phase, *, code=None, restarts=0, deleted=False, reason=None, labels=None):
    ended = {} if code is None else {"state": {"terminated": {"exitCode": code, "reason": "Error"}}}
    status = {
        "phase": phase,
        "reason": reason,
        "containerStatuses": [{"name": "pytorch", "restartCount": restarts, **ended}],
    }
    mark = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30} if deleted else {}
    about = {"name": name, "labels": labels or {}, **mark}
    return {"kind": "Pod", "metadata": about, "status": status}


def pods(*phases):
    return [pod(name, phase) for name, phase in zip(NAMES, phases, strict=True)]


def judged(manifest, objects, *, remade=0, active_for=0):
    """The decisions and the status that follow from a job's pods, after `remade` restarts."""
    stage = Stage(manifest, remade=remade)
    for each in sorted(objects, key=lambda each: each["kind"] == "Job"):
        stage.put(each)
    if end_of(conditions_of(stage.gang.parsed.manifest)):
        stage.state = replace(stage.state, status=replace(stage.state.status, phase=Phase.FAILED))
        stage.gang.stored = replace(stage.gang.stored, status=stage.state.status)
        stage.clean_up()
    else:
        stage.now = active_for
        stage.turn(*([e.Suspend()] if stage.gang.job.suspend else [e.Timer()]))
    status = stage.status()
    if stage.run.stopping:
        finish(stage)
    if stage.state.status.phase is Phase.SUSPENDED:
        status = stage.status()
    return SimpleNamespace(
        create=stage.in_order(stage.executor.created),
        delete=stage.in_order([name for name in stage.executor.deleted if "launcher-" not in name]),
        anew=stage.state.status.member_restarts - remade,
        conditions=tuple(untimed(each) for each in status["conditions"]),
        replica_statuses=status["replicaStatuses"],
        ended=next((each["type"] for each in status["conditions"] if is_end(each)), ""),
    )


def finish(stage):
    """Removes the deleted pods and cleans up the gang."""
    for name in list(stage.executor.deleted):
        if ("ml", name) in stage.pods.fresh.objects:
            stage.remove(name)
    stage.turn()


def is_end(condition):
    return condition["type"] in ("Succeeded", "Failed") and condition["status"] == "True"


def untimed(condition):
    return {name: value for name, value in condition.items() if not name.endswith("Time")}


def by_type(status):
    return {each["type"]: each for each in status["conditions"]}


def true_conditions(judgement):
    """True conditions with their reasons."""
    return {each["type"]: each["reason"] for each in judgement.conditions if each["status"] == "True"}
