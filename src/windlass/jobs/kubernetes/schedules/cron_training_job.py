"""CronTrainingJob: a schedule as an object of its own, and the TrainingJob of each of its runs.

A run is named by its schedule and due time, so that the API server refuses a second run of the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass.jobs.description.schedule_fields import MAX_KEPT
from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.labels import CANCEL, RERUN_OF, SCHEDULE, SCHEDULED_AT, USER
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField, read_fields
from windlass.jobs.kubernetes.schedules.cron_fields import MAX_DEADLINE_S, POLICIES
from windlass.jobs.kubernetes.status.status_times import milliseconds, rfc3339
from windlass.jobs.schedules.cron_times import read_cron, read_time_zone
from windlass.jobs.schedules.schedule import KEPT_FAILED, KEPT_SUCCEEDED, UTC, Schedule
from windlass.jobs.syntax.names import DNS_LABEL, is_name

API_VERSION, KIND, PLURAL = trainingjob.API_VERSION, "CronTrainingJob", "crontrainingjobs"
MAX_NAME = 52
"""Characters of a name: those of a run are a label of DNS with the schedule's name, a dash and its time."""
RUN = "run"
"""The permission to create the runs of CronTrainingJobs for their users: a verb on the kind, in the whole cluster."""
_MINUTE_MS = 60_000
_NOT_OF_A_TEMPLATE = frozenset({USER, CANCEL, RERUN_OF, SCHEDULED_AT})
"""Annotations that state what happened to one object."""


@dataclass(frozen=True, slots=True)
class CronTrainingJob:
    """One schedule of a cluster, checked. `created` in ms."""

    name: str
    namespace: str
    uid: str
    created: int
    schedule: Schedule
    suspended: bool
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: Manifest
    """Spec of the runs, which the API server checks when it creates them."""


def read(manifest: Manifest) -> CronTrainingJob:
    """Reads an object. Raises ManifestError."""
    whole = ManifestField(manifest)
    about, spec = whole["metadata"], whole["spec"]
    template = spec["jobTemplate"]
    fields: dict[str, Any] = read_fields(
        name=lambda: _name(about["name"]),
        schedule=lambda: _schedule(spec),
        suspended=spec["suspend"].flag,
        labels=lambda: _texts(template, "labels"),
        annotations=lambda: _texts(template, "annotations"),
        spec=lambda: template["spec"].mapping() or template["spec"].refuse("is missing: write the spec of the runs"),
    )
    created = milliseconds(about["creationTimestamp"].text()) or 0
    return CronTrainingJob(
        namespace=about["namespace"].text() or "default", uid=about["uid"].text(), created=created, **fields
    )


def run_name(schedule: str, due: int) -> str:
    """The name of the run of a schedule that is due at a time: `nightly-29411700`, with minutes since 1970."""
    return f"{schedule}-{due // _MINUTE_MS}"


def run_object(cron: CronTrainingJob, name: str, *, due: int | None = None, user: str = "") -> Manifest:
    """The TrainingJob of a run. `due`: its time, None for one that a user starts; `user`: the schedule's creator."""
    texts = {SCHEDULED_AT: "" if due is None else rfc3339(due), USER: user}
    kept = {word: text for word, text in cron.annotations.items() if word not in _NOT_OF_A_TEMPLATE}
    metadata = {
        "name": name,
        "namespace": cron.namespace,
        "labels": {**cron.labels, SCHEDULE: cron.name},
        "annotations": {**kept, **{word: text for word, text in texts.items() if text}},
        "ownerReferences": [owner_reference(cron)],
    }
    return {"apiVersion": trainingjob.API_VERSION, "kind": trainingjob.KIND, "metadata": metadata, "spec": cron.spec}


def owner_reference(cron: CronTrainingJob) -> Manifest:
    """The reference by which a run belongs to its schedule and is deleted with it."""
    about = {"apiVersion": API_VERSION, "kind": KIND, "name": cron.name, "uid": cron.uid}
    return {**about, "controller": True, "blockOwnerDeletion": True}


def is_run_of(manifest: Manifest, uid: str) -> bool:
    """Whether an object is controlled by the schedule with this uid."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


def _name(name: ManifestField) -> str:
    text = name.text()
    if not is_name(DNS_LABEL, text) or len(text) > MAX_NAME:
        name.refuse(f"expects small letters, digits and dashes, a letter first, {MAX_NAME} at most")
    return text


def _texts(template: ManifestField, name: str) -> dict[str, str]:
    return template["metadata"][name].text_map()


def _schedule(spec: ManifestField) -> Schedule:
    fields: dict[str, Any] = read_fields(
        cron=lambda: _checked(spec["schedule"], read_cron, ""),
        time_zone=lambda: _checked(spec["timeZone"], read_time_zone, UTC),
        policy=lambda: POLICIES[spec["concurrencyPolicy"].choice(tuple(POLICIES), "Forbid")],
        starting_deadline=lambda: _deadline(spec["startingDeadlineSeconds"]),
        kept_succeeded=lambda: _limit(spec["successfulJobsHistoryLimit"], KEPT_SUCCEEDED),
        kept_failed=lambda: _limit(spec["failedJobsHistoryLimit"], KEPT_FAILED),
    )
    return Schedule(**fields)


def _checked(field: ManifestField, check: Callable[[str], str], default: str) -> str:
    try:
        return check(field.text() or default)
    except ValueError as error:
        field.refuse(str(error))


def _deadline(field: ManifestField) -> int | None:
    seconds = field.integer(0, MAX_DEADLINE_S)
    return None if seconds is None else seconds * 1000


def _limit(field: ManifestField, default: int) -> int:
    number = field.integer(0, MAX_KEPT)
    return default if number is None else number
