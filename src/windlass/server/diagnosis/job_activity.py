"""Present activity of a job: its state, the last signs of its ranks, and the commands that tell more.

A job that stands still prints nothing that a rule could match. The ages of the last heartbeats and of the last output
name the rank for which the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from windlass.agent.hang_detection import START_PHASE
from windlass.core.model.status import Phase
from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.flight.heartbeats import step_position
from windlass.diagnose.flight.rank_places import RankPlace
from windlass.server.diagnosis.evidence_request import LoggedText
from windlass.server.diagnosis.hang_deadline import describe_hang_deadline

Json = Mapping[str, Any]

_SINCE = {
    Phase.CREATED: "created_at",
    Phase.QUEUED: "queued_at",
    Phase.ADMITTED: "admitted_at",
    Phase.RUNNING: "running_since",
    Phase.SUSPENDED: "stopped_at",
    Phase.SUCCEEDED: "finished_at",
    Phase.FAILED: "finished_at",
}
"""Field of a job with the time since which it is in a phase."""
_MAX_SIGNALLED = 64
"""Ranks that one command makes write their stacks; the next report has the command for the rest."""


@dataclass(frozen=True, slots=True)
class RankActivity:
    """Last signs of a rank. Times in milliseconds since the epoch; absent where they are not known."""

    rank: int
    node: str
    pid: int | None = None
    code: int | None = None
    """Exit code; absent while it runs."""
    step: int | None = None
    phase: str = ""
    heartbeat_at: int | None = None
    printed_at: int | None = None
    waits_in: str = ""
    """Operation or place in the program by a flight recorder or a stack that is newer than the last heartbeat."""


@dataclass(frozen=True, slots=True)
class JobActivity:
    """A job at one time."""

    id: str
    phase: str
    attempt: int
    """0 before the first one."""
    now: int
    since: int | None
    """Time since which it is in its phase."""
    nodes: Sequence[str]
    reason: str
    message: str
    ranks: Sequence[RankActivity] = ()
    """Ranks of a job that runs, the one that is furthest behind first."""
    hang_detection: str = ""
    """When the hang detector acts, and the setting that changes it."""
    next_commands: Sequence[str] = ()
    member_wait: str = ""
    """Why some members do not run, or are restarted in place; "" if all run."""


def job_activity(
    details: Json,
    places: Mapping[int, RankPlace],
    texts: Sequence[LoggedText],
    now: int,
    option: str = "",
    has_stack: Callable[[int], bool] = lambda _pid: False,
) -> JobActivity:
    """Returns the activity of a job. `details`: all its details (`windlass.server.views.job_details`).

    `texts`: logs of pods, whose last lines have a time. `option`: words that name the cluster in the next commands.
    `has_stack`: whether a process writes its stack on SIGUSR2, by its pid.
    """
    phase, status = Phase(details["phase"]), details["status"]
    ranks = sorted(_ranks(details, places, texts), key=_progress) if phase is Phase.RUNNING else []
    has_heartbeats = any(each.heartbeat_at for each in ranks)
    return JobActivity(
        id=details["id"],
        phase=phase.value,
        attempt=status["generation"],
        now=now,
        since=details.get(_SINCE.get(phase, "")) or None,
        nodes=details["nodes"],
        reason=details["reason"],
        message=details["message"],
        ranks=ranks,
        hang_detection=describe_hang_deadline(details, _phase(ranks[0]) if has_heartbeats else None) if ranks else "",
        member_wait=_member_wait(details),
        next_commands=[*_stack_command(details, ranks, has_stack), *_next_commands(details, phase, ranks, option)],
    )


def _member_wait(details: Json) -> str:
    wait = details.get("member_wait")
    return f"{wait['message']} ({wait['reason']})" if wait else ""


def _ranks(details: Json, places: Mapping[int, RankPlace], texts: Sequence[LoggedText]) -> Iterator[RankActivity]:
    """Yields the ranks that the backend has seen, else the tasks of the newest attempt."""
    seen = (details.get("progress") or {}).get("ranks") or _tasks(details)
    printed = {text.rank: _last_time(text.text) for text in texts if text.rank is not None}
    for each in seen:
        rank, beat = each["rank"], each.get("at")
        printed_at = each.get("printed_at") or printed.get(rank)
        place = places.get(rank)
        is_present = place is not None and place.written_ms >= (beat or printed_at or 0)
        yield RankActivity(
            rank=rank,
            node=each.get("node") or "",
            pid=each.get("pid"),
            code=each.get("code"),
            step=each.get("step"),
            phase=each.get("phase") or "",
            heartbeat_at=beat,
            printed_at=printed_at,
            waits_in=place.text if place is not None and is_present else "",
        )


def _phase(rank: RankActivity) -> str:
    return rank.phase or START_PHASE


def _tasks(details: Json) -> list[Json]:
    newest = details["status"]["generation"]
    return [task for task in details["tasks"] if task["generation"] == newest]


def _last_time(log: str) -> int | None:
    """Returns the time of the last line of a log, if its lines have times."""
    lines = log.rstrip("\n").rpartition("\n")
    return read_prefixes(lines[2]).time


def _progress(rank: RankActivity) -> tuple[int, int, int, int]:
    """Sort key: ranks without a heartbeat by their last output, then by step, phase and time of the last heartbeat."""
    if rank.heartbeat_at is None:
        return -1, -1, rank.printed_at or 0, rank.rank
    return *step_position(rank.step or 0, rank.phase), rank.heartbeat_at, rank.rank


def _stack_command(details: Json, ranks: Sequence[RankActivity], has_stack: Callable[[int], bool]) -> Iterator[str]:
    """Yields the command by which all ranks whose place is not known write their stacks, and which shows the places.

    The rank for which the others wait is not known without the places of all.
    """
    if details["spec"]["launcher"] != "agent":
        return
    pids = (each.pid for each in ranks if each.pid and each.code is None and not each.waits_in)
    if chosen := list(islice(filter(has_stack, pids), _MAX_SIGNALLED)):
        yield f"kill -USR2 {' '.join(map(str, chosen))} && sleep 1 && windlass doctor {details['id']}"


def _next_commands(details: Json, phase: Phase, ranks: Sequence[RankActivity], option: str) -> Iterator[str]:
    job_id, attempt = details["id"], details["status"]["generation"]
    match phase:
        case Phase.RUNNING:
            last = ranks[0] if ranks else None
            yield f"windlass logs {job_id}{f' --rank {last.rank}' if last else ''} --tail 20{option}"
            if any(each.heartbeat_at for each in ranks):
                yield f"windlass doctor slow {job_id}{option}"
        case Phase.CREATED | Phase.QUEUED | Phase.ADMITTED:
            yield f"windlass why {job_id}{option}"
        case Phase.SUSPENDED:
            yield f"windlass resume {job_id}{option}"
        case Phase.SUCCEEDED if attempt > 1:
            yield f"windlass doctor {job_id} --attempt {attempt - 1}{option}"
        case _:
            yield f"windlass logs {job_id}{option}"
