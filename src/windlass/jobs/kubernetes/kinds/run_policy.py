"""Reads `spec.runPolicy`, and turns its restart limits into fields of the core's job.

Source: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1/common_types.go. mpi-operator v0.8 has the same
fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from windlass.core.model.job import RestartPolicy
from windlass.jobs.kubernetes.bounded_integers import MAX_INT64
from windlass.jobs.kubernetes.labels import QUEUE
from windlass.jobs.kubernetes.manifest_reader import ManifestField, read_all, read_fields
from windlass.jobs.kubernetes.parsed_job import Replicas, RunPolicy
from windlass.jobs.syntax.durations import MAX_DURATION

RESTART_MODE = "windlass.dev/restart-mode"
CLEAN_POD_POLICIES = ("None", "Running", "All")
MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
TRAINING_OPERATOR = "kubeflow.org/training-operator"
MPI_OPERATOR = "kubeflow.org/mpi-operator"
TRAINER = "trainer.kubeflow.org/trainjob-controller"
WINDLASS_OPERATOR = "windlass.dev/operator"
_OURS = ("", WINDLASS_OPERATOR, TRAINING_OPERATOR, MPI_OPERATOR, TRAINER)
MANAGERS = (WINDLASS_OPERATOR, TRAINING_OPERATOR, MPI_OPERATOR, MULTI_KUEUE)

_BACKOFF_LIMIT = 6
"""Restarts of a whole gang where the manifest names no limit; batch/v1's. V1 without one restarts for ever."""
_PERMANENT_CODES = tuple(range(1, 128))
"""Exit codes that end a job under the restart policy ExitCode; 128 and more do not."""


def run_policy(manifest: ManifestField) -> RunPolicy:
    """Reads the run policy of a manifest. Raises ManifestError with the faults of all of its fields."""
    written = manifest["spec"]["runPolicy"]
    scheduling = written["schedulingPolicy"]
    fields = read_fields(
        clean_pod_policy=partial(clean_pod_policy, written),
        ttl_ms=partial(seconds_as_ms, written["ttlSecondsAfterFinished"]),
        deadline_ms=partial(seconds_as_ms, written["activeDeadlineSeconds"]),
        backoff_limit=written["backoffLimit"].integer,
        suspend=written["suspend"].flag,
        managed_by=partial(check_manager, written["managedBy"]),
        scheduling=partial(_scheduling_policy, manifest, scheduling),
        gang_restart=partial(_gang_restart, manifest, written),
    )
    return RunPolicy(**fields.pop("scheduling"), **fields)


def _scheduling_policy(manifest: ManifestField, scheduling: ManifestField) -> dict[str, Any]:
    fields = read_fields(
        queue=lambda: scheduling["queue"].text() or labelled_queue(manifest),
        min_available=scheduling["minAvailable"].integer,
        priority_class=scheduling["priorityClass"].text,
        min_resources=scheduling["minResources"].mapping,
        timeout=scheduling["scheduleTimeoutSeconds"].integer,
    )
    return {name: fields[name] for name in ("queue", "min_available", "priority_class")}


def clean_pod_policy(written: ManifestField) -> str:
    """The pods that are deleted when a job has ended. Raises ManifestError."""
    return written["cleanPodPolicy"].choice(CLEAN_POD_POLICIES, "None")


def labelled_queue(manifest: ManifestField) -> str:
    """The queue that the object's label names, for those whose spec names none. Raises ManifestError."""
    return manifest["metadata"]["labels"][QUEUE].text()


def is_ours(policy: RunPolicy) -> bool:
    """Tells whether the job is not another controller's."""
    return policy.managed_by in _OURS


def restart_policy(policy: RunPolicy, replicas: Sequence[Replicas]) -> RestartPolicy:
    """The restart policy of a gang that restarts whole, under `restartMode: gang`."""
    policies = {each.restart_policy for each in replicas}
    if policies <= {"Never"} or policy.backoff_limit == 0:
        return RestartPolicy(user_limit=0, restarts_after_exit=False)
    limit = _BACKOFF_LIMIT if policy.backoff_limit is None else policy.backoff_limit
    fatal = _PERMANENT_CODES if policies <= {"Never", "ExitCode"} else ()
    return RestartPolicy(user_limit=limit, fatal_exit_codes=fatal)


def seconds_as_ms(field: ManifestField) -> int | None:
    """Seconds as milliseconds; None if absent. Raises ManifestError."""
    number = field.integer(0, MAX_INT64)
    return None if number is None else min(number * 1000, MAX_DURATION)


def check_manager(field: ManifestField, operators: tuple[str, ...] = (TRAINING_OPERATOR, MPI_OPERATOR)) -> str:
    """The controller of the job; empty if none is named. `operators`: those of the kind that Windlass replaces.

    Raises ManifestError.
    """
    name, known = field.text(), (WINDLASS_OPERATOR, *operators, MULTI_KUEUE)
    if name and name not in known:
        field.refuse(f"expects {' or '.join(known)}; leave it out for the operator that serves the kind")
    return name


def _gang_restart(manifest: ManifestField, written: ManifestField) -> bool:
    fields = (written["restartMode"], manifest["metadata"]["annotations"][RESTART_MODE])
    return "gang" in read_all(*(partial(field.choice, ("gang", "pod"), "pod") for field in fields))
