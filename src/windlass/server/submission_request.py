"""Submission requests: validation, numbering of jobs and arrays, and resolution of the names in `after`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

import msgspec

from windlass.backends.local.state_reader import StateReader
from windlass.backends.port import JobArrived
from windlass.core.model.elastic_size import job_at_maximum
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState
from windlass.jobs.description.dependency_resolution import ResolveName, resolve_dependencies
from windlass.jobs.description.submission import Submission, array_members
from windlass.jobs.schedules.schedule import Schedule
from windlass.jobs.syntax.array_indexes import MAX_ARRAY
from windlass.jobs.syntax.names import JOB_NAME, is_name
from windlass.jobs.syntax.timestamps import MAX_MOMENT
from windlass.server.errors import ApiError, ErrorCode

KEY_LABEL = "windlass.dev/submission"
"""Label with the key of a job's request. A request that is repeated after a lost answer finds its jobs by it."""
_OWNER = r"[1-9][0-9]{0,9}:[0-9]{1,18}:[^:]{1,64}"
_LAST_INDEX = 999_999
"""Six digits, so that ids stay valid."""
_MAX_SEARCHED = 10_000
"""Latest jobs searched for a repeated request."""
_MAX_RANKS = 1_000_000
_MAX_DEPENDENCIES = 50_000
"""Maximum number of dependencies of one submission. Each is checked when the job that it names ends."""
_MAX_AMOUNT = 2**53
"""Maximum of any amount: sums of a few amounts stay within the 64 bits of the database and of numpy."""


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """Body of a submission. `environment`: inherited by the ranks; `owner`: process that the jobs must not outlive."""

    submissions: tuple[Submission, ...]
    environment: Mapping[str, str] | None = None
    owner: str = ""
    key: str = ""
    """Random text of the client that identifies this request."""
    again: bool = False
    """The request was sent before, and its answer was lost."""


def read_submissions(body: object) -> SubmissionRequest:
    """Decodes and validates a request's body. Raises ApiError."""
    try:
        request = msgspec.convert(body, SubmissionRequest)
    except msgspec.ValidationError as error:
        raise ApiError(ErrorCode.BAD_REQUEST, f"this is not a list of jobs: {error}") from None
    if not request.submissions:
        raise ApiError(ErrorCode.BAD_REQUEST, "the request contains no job")
    if request.owner and not re.fullmatch(_OWNER, request.owner):
        raise ApiError(ErrorCode.BAD_REQUEST, f"owner is 'pid:start ticks:boot id', not {request.owner[:60]!r}")
    for number, submission in enumerate(request.submissions):
        if wrong := _find_invalid(submission):
            raise ApiError(ErrorCode.BAD_REQUEST, f"this is not a list of jobs: {wrong} - at `$.submissions[{number}]`")
    return request


def _find_invalid(submission: Submission) -> str:
    """An error that types do not exclude and that would break a controller, which names folders and counts ranks."""
    job = submission.job
    if not is_name(JOB_NAME, job.name):
        return f"{job.name[:60]!a} is not a valid name of a job"
    checks = [
        *map(_find_invalid_counts, job.roles),
        _find_invalid_indexes(submission.array),
        _find_invalid_times(submission.schedule),
        "" if 0 <= (job.begin or 0) <= MAX_MOMENT else f"begin is a time in ms from 0 to {MAX_MOMENT}",
    ]
    if wrong := next(filter(None, checks), ""):
        return wrong
    ranks = job_at_maximum(job).world_size
    if ranks > _MAX_RANKS:
        return f"{ranks} ranks are more than {_MAX_RANKS}"
    try:
        msgspec.json.encode(submission)
    except UnicodeEncodeError as error:
        return str(error)
    if (largest := _largest(msgspec.to_builtins(submission))) > _MAX_AMOUNT:
        return f"{largest} is more than {_MAX_AMOUNT}"
    return ""


def _find_invalid_counts(role: Role) -> str:
    """An error in the counts of a role, empty if there is none."""
    fewest = role.replicas if role.min_replicas is None else role.min_replicas
    most = role.replicas if role.max_replicas is None else role.max_replicas
    if not 1 <= fewest <= role.replicas <= most:
        return f"role {role.name[:60]!a} has from {fewest} over {role.replicas} to {most} replicas"
    if role.procs < 1 or any(amount < 0 for amount in role.resources.values()):
        return f"role {role.name[:60]!a} requests a negative amount"
    return ""


def _find_invalid_indexes(indexes: tuple[int, ...]) -> str:
    """An error in the indexes of an array, empty if there is none."""
    if len(indexes) > MAX_ARRAY or len(set(indexes)) < len(indexes) or not all(0 <= i <= _LAST_INDEX for i in indexes):
        return f"an array has at most {MAX_ARRAY} indexes, each once, from 0 to {_LAST_INDEX}"
    return ""


def _find_invalid_times(schedule: Schedule | None) -> str:
    """An error in a schedule, empty if there is none."""
    if schedule is None:
        return ""
    from windlass.jobs.schedules.cron_times import read_cron, read_time_zone  # noqa: PLC0415 - few jobs have a schedule

    try:
        read_cron(schedule.cron)
        read_time_zone(schedule.time_zone)
    except ValueError as error:
        return f"schedule {error}"
    if (schedule.starting_deadline or 0) < 0 or min(schedule.kept_succeeded, schedule.kept_failed) < 0:
        return "schedule expects no negative numbers"
    return ""


def _largest(value: object) -> int:
    """Largest absolute integer in plain data."""
    match value:
        case int():
            return abs(value)
        case dict():
            return max(map(_largest, value.values()), default=0)
        case list() | tuple():
            return max(map(_largest, value), default=0)
    return 0


@dataclass(slots=True)
class NumberedJobs:
    """Numbered jobs. `ids`: one for each submission. `jobs`: every job, each member of an array included."""

    ids: list[str] = field(default_factory=list)
    jobs: list[JobArrived] = field(default_factory=list)


def number_jobs(
    request: SubmissionRequest, first: int, known: Callable[[str], list[str]], living: Iterable[JobState] = ()
) -> NumberedJobs:
    """Number the jobs of a request from `first` on. `known`: ids of the recorded jobs of a name; it may raise ApiError.

    A name in `after` means an earlier job of the same request if there is one, else a recorded job. `living`: jobs
    that have not ended.
    """
    batch = NumberedJobs()
    here: dict[str, list[str]] = {}

    def resolve(name: str) -> list[str]:
        return here[name] if name in here else known(name)

    def resolve_earlier(user: str, name: str) -> list[str]:
        recorded = [each.id for each in living if each.job.name == name and each.job.user == user]
        return recorded + [each.job_id for each in batch.jobs if each.job.name == name]

    for number, submission in enumerate(request.submissions, start=first):
        job_id = f"{submission.job.name}-{number}"
        find = cache(resolve), cache(partial(resolve_earlier, submission.job.user))
        job = _with_key(submission.job, request.key)
        named = array_members(replace(submission, job=job), job_id) or [(job_id, job)]
        named = [(name, _with_ids(each, *find)) for name, each in named]
        if (waits := sum(len(each.after) for _, each in named)) > _MAX_DEPENDENCIES:
            raise ApiError(
                ErrorCode.BAD_REQUEST,
                f"{job.name}: {len(named)} jobs that wait for others have {waits} dependencies, "
                f"and {_MAX_DEPENDENCIES} is the most; put one job between the two arrays, and wait for that",
            )
        batch.ids.append(job_id)
        batch.jobs += [JobArrived(name, number, each) for name, each in named]
        here[submission.job.name] = [name for name, _ in named]
    return batch


def _with_key(job: Job, key: str) -> Job:
    return replace(job, labels={**job.labels, KEY_LABEL: key}) if key else job


def _with_ids(job: Job, find: ResolveName, find_earlier: ResolveName) -> Job:
    """The job with ids in its dependencies. Raises ApiError."""
    if not job.after:
        return job
    try:
        return replace(job, after=resolve_dependencies(job, find, find_earlier))
    except ValueError as error:
        fix = "submit both arrays with the same indexes, or wait for the whole array"
        raise ApiError(ErrorCode.BAD_REQUEST, f"{job.name}: {error}", fix) from None


def find_repeated(key: str, living: Iterable[JobState], records: StateReader) -> list[str]:
    """Ids that the request with this key received, in order; empty if it never arrived."""
    if not key:
        return []
    states = {state.id: state for state in (*records.jobs(limit=_MAX_SEARCHED), *living)}
    found = sorted((s.number, s.job.array.array_id if s.job.array else s.id) for s in states.values() if _is(s, key))
    return list(dict.fromkeys(name for _, name in found))


def _is(state: JobState, key: str) -> bool:
    return state.job.labels.get(KEY_LABEL) == key
