"""From what was handed in to jobs with ids: numbers, arrays, and the names that `after` holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from windlass.backends.local.state_reader import StateReader
from windlass.backends.port import JobArrived
from windlass.core.model.elastic_size import fully_grown
from windlass.core.model.job import Dependency, Job, Role
from windlass.core.model.status import JobState
from windlass.jobs.description.submission import Submission, members
from windlass.jobs.syntax.array_indexes import MAX_ARRAY
from windlass.jobs.syntax.names import JOB_NAME, is_name
from windlass.server.errors import ApiError, Code

KEY_LABEL = "windlass.dev/submission"
"""Which request a job came with: a request that is repeated, because its answer was lost, finds its jobs by it."""
_OWNER = r"[1-9][0-9]{0,9}:[0-9]{1,18}:[^:]{1,64}"
_LAST_INDEX = 999_999
"""Six digits, for valid ids."""
_LOOKED_BACK = 10_000
_MOST_RANKS = 1_000_000
_MOST_WAITS = 50_000
"""Each is looked at when one of them ends."""
_MOST = 2**53
"""Of any amount: sums of a few stay within the 64 bits of the database and of numpy."""


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """The body of a submission. `environment`: what the ranks inherit; `owner`: whom the jobs must not outlive."""

    submissions: tuple[Submission, ...]
    environment: Mapping[str, str] | None = None
    owner: str = ""
    key: str = ""
    """Drawn by the client, to tell this request from any other."""
    again: bool = False
    """It was sent before, and nobody knows what became of it."""


def read_submissions(body: object) -> SubmissionRequest:
    """A request's body. Raises ApiError."""
    try:
        handed = msgspec.convert(body, SubmissionRequest)
    except msgspec.ValidationError as error:
        raise ApiError(Code.BAD_REQUEST, f"this is no list of jobs: {error}") from None
    if not handed.submissions:
        raise ApiError(Code.BAD_REQUEST, "there is no job in this request")
    if handed.owner and not re.fullmatch(_OWNER, handed.owner):
        raise ApiError(Code.BAD_REQUEST, f"owner is 'pid:start ticks:boot id', not {handed.owner[:60]!r}")
    for number, submission in enumerate(handed.submissions):
        if wrong := _cannot_be_kept(submission):
            raise ApiError(Code.BAD_REQUEST, f"this is no list of jobs: {wrong} - at `$.submissions[{number}]`")
    return handed


def _cannot_be_kept(submission: Submission) -> str:
    """What types do not tell, and would stop a controller: it names folders, counts ranks and writes all of it down."""
    job = submission.job
    if not is_name(JOB_NAME, job.name):
        return f"{job.name[:60]!a} cannot be the name of a job"
    if wrong := next(filter(None, [*map(_impossible, job.roles), _no_array(submission.array)]), ""):
        return wrong
    ranks = fully_grown(job).world_size
    if ranks > _MOST_RANKS:
        return f"{ranks} ranks are more than {_MOST_RANKS}"
    try:
        msgspec.json.encode(submission)
    except UnicodeEncodeError as error:
        return str(error)
    if (largest := _largest(msgspec.to_builtins(submission))) > _MOST:
        return f"{largest} is more than {_MOST}"
    return ""


def _impossible(role: Role) -> str:
    """What is wrong with a role's numbers, "" if nothing is."""
    fewest = role.replicas if role.min_replicas is None else role.min_replicas
    most = role.replicas if role.max_replicas is None else role.max_replicas
    if not 1 <= fewest <= role.replicas <= most:
        return f"role {role.name[:60]!a} has from {fewest} over {role.replicas} to {most} replicas"
    if role.procs < 1 or any(amount < 0 for amount in role.resources.values()):
        return f"role {role.name[:60]!a} asks for less than nothing"
    return ""


def _no_array(indexes: tuple[int, ...]) -> str:
    """What is wrong with an array's indexes, "" if nothing is."""
    if len(indexes) > MAX_ARRAY or len(set(indexes)) < len(indexes) or not all(0 <= i <= _LAST_INDEX for i in indexes):
        return f"an array has at most {MAX_ARRAY} indexes, each once, from 0 to {_LAST_INDEX}"
    return ""


def _largest(value: object) -> int:
    """The integer of the largest amount in plain data."""
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
    """`ids`: one for each submission. `jobs`: an array's members apart."""

    ids: list[str] = field(default_factory=list)
    jobs: list[JobArrived] = field(default_factory=list)


def number_jobs(handed: SubmissionRequest, first: int, known: Callable[[str], list[str]]) -> NumberedJobs:
    """Number the jobs from `first` on. `known` finds the jobs of a name, or raises what the client is to be told.

    A name in `after` means an earlier job of the same request, if one is called so, else one that is on record.
    """
    batch = NumberedJobs()
    here: dict[str, list[str]] = {}

    def meant(name: str) -> list[str]:
        return here[name] if name in here else known(name)

    for number, submission in enumerate(handed.submissions, start=first):
        job_id = f"{submission.job.name}-{number}"
        job = _resolved(submission.job, meant, handed.key)
        named = members(replace(submission, job=job), job_id) or [(job_id, job)]
        if (waits := len(named) * len(job.after)) > _MOST_WAITS:
            raise ApiError(
                Code.BAD_REQUEST,
                f"{job.name}: {len(named)} jobs that each wait for {len(job.after)} others are {waits} dependencies, "
                f"and {_MOST_WAITS} is the most; put one job between the two arrays, and wait for that",
            )
        batch.ids.append(job_id)
        batch.jobs += [JobArrived(name, number, each) for name, each in named]
        here[submission.job.name] = [name for name, _ in named]
    return batch


def _resolved(job: Job, meant: Callable[[str], list[str]], key: str) -> Job:
    after = [Dependency(job_id, wanted.condition) for wanted in job.after for job_id in meant(wanted.job_id)]
    labels = {**job.labels, KEY_LABEL: key} if key else job.labels
    return replace(job, after=tuple(dict.fromkeys(after)), labels=labels)


def find_repeated(key: str, living: Iterable[JobState], records: StateReader) -> list[str]:
    """The ids that a request of this key was given, in order; empty if it never arrived."""
    if not key:
        return []
    states = {state.id: state for state in (*records.jobs(limit=_LOOKED_BACK), *living)}
    found = sorted((s.number, s.job.array.array_id if s.job.array else s.id) for s in states.values() if _is(s, key))
    return list(dict.fromkeys(name for _, name in found))


def _is(state: JobState, key: str) -> bool:
    return state.job.labels.get(KEY_LABEL) == key
