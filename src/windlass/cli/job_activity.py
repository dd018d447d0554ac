"""Formats the present activity of a job for `windlass doctor JOB`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from windlass.cli.terminal.formatting import format_duration, format_time, join_lines, pluralize, shorten
from windlass.server.diagnosis.job_activity import JobActivity, RankActivity

_STOPPED_MS = 30_000
"""Time without a heartbeat or output of any rank after which a job may stand still."""
_MAX_RANKS = 8
_STATES = {
    "Created": "is not queued yet",
    "Queued": "waits",
    "Admitted": "starts",
    "Running": "runs",
    "Restarting": "stops and starts again",
    "Suspended": "is suspended",
    "Succeeded": "has succeeded",
    "Failed": "has failed",
}


def headline(job: JobActivity) -> str:
    """Returns the state of a job, its attempt, since when, where, and the reason of a wait."""
    attempt = f": attempt {job.attempt}" if job.attempt else ""
    since = f" since {format_time(job.since, job.now)} ({format_duration(job.now - job.since)})" if job.since else ""
    parts = [f"{job.id} {_STATES[job.phase]}{attempt}{since}", f"on {shorten(job.nodes)}" if job.nodes else ""]
    return ", ".join(filter(None, parts)) + _reason(job)


def activity_sections(job: JobActivity) -> Mapping[str, Sequence[str]]:
    """Returns lines by their titles: the last signs of the ranks, hang detection, and the next commands."""
    more = len(job.ranks) - _MAX_RANKS
    rows = [_rank_line(rank, job.now) for rank in job.ranks[:_MAX_RANKS]]
    rows += [f"and {pluralize(more, 'more rank')}; -o json has all"] if more > 0 else []
    sections = {
        "members": [join_lines(job.member_wait)] if job.member_wait else [],
        "last signs": [*_last_sign(job), *rows],
        "hang detection": [job.hang_detection] if job.hang_detection else [],
        "next command": job.next_commands,
    }
    return {title: lines for title, lines in sections.items() if lines}


def _reason(job: JobActivity) -> str:
    if job.phase in ("Running", "Succeeded") or not job.message:
        return ""
    return f": {join_lines(job.message)} ({job.reason})"


def _last_sign(job: JobActivity) -> Iterator[str]:
    """Yields one line on all ranks: whether any of them goes on."""
    beats = [rank.heartbeat_at for rank in job.ranks if rank.heartbeat_at is not None]
    prints = [rank.printed_at for rank in job.ranks if rank.printed_at is not None]
    if not job.ranks:
        return
    last, what = (max(beats), "heartbeat") if beats else (max(prints, default=None), "output")
    if last is None:
        yield "no rank has sent a heartbeat or printed anything"
    elif job.now - last < _STOPPED_MS:
        yield f"last {what} of any rank {format_duration(job.now - last)} ago"
    else:
        yield f"no rank goes on: last {what} of any rank {format_duration(job.now - last)} ago"


def _rank_line(rank: RankActivity, now: int) -> str:
    where = f" on {rank.node}" if rank.node else ""
    parts = [
        "" if rank.heartbeat_at is None else f"{rank.phase} of step {rank.step} for {_age(rank.heartbeat_at, now)}",
        f"last output {_age(rank.printed_at, now)} ago" if rank.printed_at is not None else "no output",
        f"ended with exit code {rank.code}" if rank.code is not None else "",
        f"waits in {rank.waits_in}" if rank.waits_in else "",
        f"pid {rank.pid}" if rank.pid is not None and rank.code is None else "",
    ]
    return f"rank {rank.rank}{where}: {', '.join(filter(None, parts))}"


def _age(at: int, now: int) -> str:
    return format_duration(max(0, now - at))
