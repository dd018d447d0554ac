"""Judges a daemon from the outside: by the answers of its command line, and by what its ranks write into a diary.

A rank notes its start and its end, with its code, in a file outside of the state folder, and holds a lock that belongs
to its job and rank: a later generation that does not get the lock runs beside an earlier one. Processes that a rank
leaves behind hold the lock, too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TOKEN = "DAEMON_CAMPAIGN"  # noqa: S105 - the name of a variable
"""Environment variable of every process of a schedule; its value is the diary's path."""
_RANK = """
note() { echo "$1 $WINDLASS_JOB_ID $WINDLASS_GENERATION $RANK $2" >> "$DAEMON_CAMPAIGN"; }
end() { note ends $1; exit $1; }
exec 9>>"$DAEMON_CAMPAIGN.$WINDLASS_JOB_ID.$RANK"
flock -n 9 || note overlaps 0
note starts $$
"""
PROGRAMS = {
    "plain": "sleep 0.1; end 0",
    "short": "end 0",
    "long": "sleep 0.7; end 0",
    "fails": "end 5",
    "flaky": 'mkdir "$DAEMON_CAMPAIGN.$WINDLASS_JOB_ID.$RANK.failed" && end 7; sleep 0.1; end 0',
    "leaves": "sleep 300 & sleep 0.1; end 0",
    "escapes": "setsid sleep 300 & sleep 0.1; end 0",
    "prints": "head -c 60000 /dev/zero | tr '\\\\0' x; end 0",
}
"""Scripts of ranks by kind of job. Each ends with 0 in the end, except those of `fails`."""
_CODE_OF_FAILS = 5
_FACTS = ("name", "phase", "reason", "exit_code", "attempts", "created_at", "finished_at")
"""Parts of the answer about an ended job that never change."""


class Asked(NamedTuple):
    """A job that a client submitted. `acknowledged`: it was given an id."""

    name: str
    kind: str
    ranks: int
    acknowledged: bool


class Entry(NamedTuple):
    """A line of the diary. `value`: the pid for "starts", the exit code for "ends"."""

    what: str
    job_id: str
    generation: int
    rank: int
    value: int


def job_file(asked: Asked) -> str:
    """Returns the job file of a job."""
    script = (_RANK + PROGRAMS[asked.kind]).replace("\n", "\n    ")
    return (
        f"name: {asked.name}\nnodes: {asked.ranks}\ngpus: 1\nlauncher: plain\ngrace: 2s\n"
        f"restart: {{user: {10 if asked.kind == 'flaky' else 0}, backoff: 10ms, infrastructure: 100}}\n"
        f"command:\n- sh\n- -c\n- |\n    {script}\n"
    )


def read_diary(file: Path) -> list[Entry]:
    """Returns all lines up to now."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Entry(what, job_id, *map(int, numbers)) for what, job_id, *numbers in map(str.split, lines)]


def end_violations(
    asked: Iterable[Asked], history: Iterable[Mapping[str, Any]], diary: list[Entry], *, cancelled: set[str]
) -> Iterator[str]:
    """Yields jobs that are lost, doubled or wrongly ended, and ranks that ran twice or beside an earlier generation."""
    rows = list(history)
    known = {job.name: job for job in asked}
    times = Counter(row["name"] for row in rows)
    yield from (f"{name} was never submitted" for name in times if name not in known)
    for job in known.values():
        if times[job.name] > 1:
            yield f"{job.name} exists {times[job.name]} times"
        if job.acknowledged and not times[job.name]:
            yield f"{job.name} is lost"
    for row in rows:
        if row["name"] in known and not _is_true(row, known[row["name"]], diary, cancelled):
            ended = f"{row['id']} is {row['phase']}, {row['reason']}, {row['exit_code']} ({row['message']})"
            yield f"{ended}: its ranks noted otherwise"
    yield from rank_violations(diary)


def rank_violations(diary: list[Entry]) -> Iterator[str]:
    """Yields ranks that started twice in one generation, or beside an earlier one."""
    starts = Counter(entry[1:4] for entry in diary if entry.what == "starts")
    yield from (f"{start} started {count} times" for start, count in starts.items() if count > 1)
    yield from (f"{entry[1:4]} runs beside an earlier one" for entry in diary if entry.what == "overlaps")


def repeated_work(diary: list[Entry], ranks: Mapping[str, int]) -> Iterator[str]:
    """Yields generations that ran although all ranks of an earlier one had succeeded. `ranks`: number, by job id."""
    done = Counter((entry.job_id, entry.generation) for entry in diary if (entry.what, entry.value) == ("ends", 0))
    for job_id, generation in {(entry.job_id, entry.generation) for entry in diary}:
        if any(done[job_id, earlier] == ranks.get(job_id) for earlier in range(1, generation)):
            yield f"{job_id} runs generation {generation} although it had succeeded"


def changed_answers(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields jobs that are missing, and facts about ended jobs that differ, from one answer to a later one."""
    now = {row["id"]: row for row in after}
    for row in before:
        if row["id"] not in now:
            yield f"{row['id']} is missing, and nothing was said"
        elif row["finished_at"] is not None:
            for fact in _FACTS:
                if row[fact] != now[row["id"]][fact]:
                    yield f"{fact} of {row['id']} was {row[fact]!r} and is {now[row['id']][fact]!r}"


def _is_true(row: Mapping[str, Any], asked: Asked, diary: list[Entry], cancelled: set[str]) -> bool:
    if row["reason"] == "Cancelled":
        # a submission that could not be saved is refused, and its job cancelled
        return row["name"] in cancelled or not asked.acknowledged
    own = [entry for entry in diary if entry.job_id == row["id"] and entry.generation == row["attempts"]]
    codes = [entry.value for entry in own if entry.what == "ends"]
    if row["phase"] == "Succeeded":
        return codes == [0] * asked.ranks and asked.kind != "fails"
    return asked.kind == "fails" and row["exit_code"] == _CODE_OF_FAILS and _CODE_OF_FAILS in codes


def processes_of(diary: Path) -> dict[int, str]:
    """Returns pid and command of the processes that have the schedule's mark in their environment."""
    mark = f"{TOKEN}={diary}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                marked = mark in (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marked and command:  # a zombie has none
                found[int(entry.name)] = command
    return found
