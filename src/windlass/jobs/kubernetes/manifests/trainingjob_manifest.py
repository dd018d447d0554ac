"""The TrainingJob of a job; `trainingjob.read` reads it back as the identical job."""

from __future__ import annotations

from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE, ArrayMember, Job
from windlass.jobs.description.rendering import as_fields
from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.kinds.trainingjob import API_VERSION, KIND
from windlass.jobs.kubernetes.labels import ARRAY, ARRAY_INDEX, ARRAY_LIMIT, JOB_NAME_ANNOTATION, USER
from windlass.jobs.kubernetes.manifest_reader import Manifest

_SAME_IF_FALSE = ("gpus", "suspend", "whole_node")
"""Fields whose false value equals their default."""


def training_job(job: Job, name: str, namespace: str = "") -> Manifest:
    """The TrainingJob of a job, with a `name` that is unique in its namespace; the job's own name may not be unique.

    Labels mark a member of an array; annotations have another name of the job, and its user. The job's workdir is
    written if it is not empty: it must be a folder of the image then.
    """
    fields = as_fields(Submission(job))
    del fields["name"]
    if job.queue == DEFAULT_QUEUE:
        del fields["queue"]  # so that the namespace's own default holds
    about: Manifest = {"name": name, **({"namespace": namespace} if namespace else {})}
    if job.array:
        about["labels"] = _array(job.array)
    texts = {JOB_NAME_ANNOTATION: job.name if job.name != name else "", USER: job.user}
    if annotations := {word: text for word, text in texts.items() if text}:
        about["annotations"] = annotations
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": about, "spec": _without_idle(fields)}


def _array(member: ArrayMember) -> dict[str, str]:
    return {ARRAY: member.array_id, ARRAY_INDEX: str(member.index), ARRAY_LIMIT: str(member.limit)}


def _without_idle(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that equal their default, for readability."""
    kept = {name: value for name, value in fields.items() if not _is_idle(name, value)}
    if "roles" in kept:
        kept["roles"] = {name: _without_idle(role) for name, role in kept["roles"].items()}
    return kept


def _is_idle(name: str, value: Any) -> bool:
    return value is None or value in ("", [], {}) or (name in _SAME_IF_FALSE and not value)
