"""The objects that run a job with a scheduler of others, and what the job loses there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import coscheduling_objects, native_objects
from windlass.jobs.kubernetes.other_schedulers.indexed_template import JOB_INDEX, VOLCANO_INDEX
from windlass.jobs.kubernetes.other_schedulers.job_set import job_set, job_set_host
from windlass.jobs.kubernetes.other_schedulers.kueue_objects import kueue_objects
from windlass.jobs.kubernetes.other_schedulers.lost_fields import lost_fields
from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, is_elastic, portable_gang
from windlass.jobs.kubernetes.other_schedulers.volcano_job import volcano_job
from windlass.jobs.syntax.names import MAX_DNS_LABEL


@dataclass(frozen=True, slots=True)
class RenderedManifests:
    """Objects for kubectl, and a line for each field that has no effect there."""

    objects: tuple[Manifest, ...]
    warnings: tuple[str, ...]


def render_manifests(submissions: Sequence[Submission], target: OtherScheduler) -> RenderedManifests:
    """The objects of each job. Raises InputError."""
    objects, warnings = list[Manifest](), list[str]()
    for submission in submissions:
        gang = _gang(submission, target)
        objects += _objects(gang, target)
        warnings += gang.warnings
        warnings += [f"{gang.name}: {loss}" for loss in lost_fields(submission.job, target)]
    return RenderedManifests(tuple(objects), tuple(warnings))


def _gang(submission: Submission, target: OtherScheduler) -> PortableGang:
    if target is OtherScheduler.VOLCANO:
        return portable_gang(submission, VOLCANO_INDEX)
    if target is OtherScheduler.JOBSET or (target is OtherScheduler.KUEUE and not is_elastic(submission.job)):
        gang = portable_gang(submission, JOB_INDEX, host=job_set_host, fixed=True)
        _refuse_long_names(submission, gang)
        return gang
    return portable_gang(submission, JOB_INDEX)


def _refuse_long_names(submission: Submission, gang: PortableGang) -> None:
    """Refuses a gang whose pods would have no host names, which are longer in a JobSet than elsewhere."""
    longest = max((job_set_host(gang.name, role.name, role.count - 1) for role in gang.roles), key=len)
    if (excess := len(longest) - MAX_DNS_LABEL) > 0:
        raise input_error(submission.source, f"name is {excess} characters too long: a pod would be called {longest}")


def _objects(gang: PortableGang, target: OtherScheduler) -> list[Manifest]:
    match target:
        case OtherScheduler.KUEUE:
            return kueue_objects(gang)
        case OtherScheduler.VOLCANO:
            return [volcano_job(gang)]
        case OtherScheduler.COSCHEDULING:
            return coscheduling_objects(gang)
        case OtherScheduler.NATIVE:
            return native_objects(gang)
        case OtherScheduler.JOBSET:
            return [job_set(gang)]
