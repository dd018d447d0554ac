"""Reads the stacks that ranks of an agent write when a gang hangs (`stacks.txt`, by Python's faulthandler)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from windlass import wire
from windlass.diagnose.failures.log_files import open_regular
from windlass.diagnose.flight.dump_format import MAX_TEXT
from windlass.diagnose.flight.program_frames import program_frame
from windlass.diagnose.flight.records import FlightDump, RankStack, SourceFrame

STACK_FILE = "stacks.txt"
MAX_STACK_BYTES = 4 << 20
_MAX_FRAMES = 200
_LOCAL_RANK = re.compile(r"\d{1,7}\Z")
_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'  File "([^"\n]*)", line (\d{1,9}) in (.*)')


def read_stack_files(
    paths: Iterable[Path], dumps: Sequence[FlightDump], statuses: Mapping[Path, Sequence[int]]
) -> dict[int, RankStack]:
    """Returns the newest stack of the main thread by rank.

    A file is in the folder of its local rank, in the folder of the attempt. `statuses`: ranks of a node by its rank
    status file, in the order of their local ranks.
    """
    attempts: dict[Path, dict[int, Path]] = defaultdict(dict)
    for path in sorted(paths):
        if path.name == STACK_FILE and _LOCAL_RANK.match(path.parent.name):
            attempts[path.parent.parent][int(path.parent.name)] = path
    stacks = {}
    for attempt, files in attempts.items():
        ranks = _ranks_of(attempt, max(files) + 1, dumps, statuses)
        for local, path in files.items():
            text, written_ns = _newest_part(path) if local < len(ranks) else ("", 0)
            if stack := parse_stack(text, str(path)):
                stacks[ranks[local]] = replace(stack, written_ns=written_ns)
    return stacks


def _ranks_of(
    attempt: Path, count: int, dumps: Sequence[FlightDump], statuses: Mapping[Path, Sequence[int]]
) -> Sequence[int]:
    """Ranks of the node of an attempt's folder, in the order of their local ranks; none where they are not certain.

    They are known by the rank status file beside the folder, by the dumps in it, or by the only status file if that
    lists the ranks of the dumps. `count`: lowest possible number of local ranks.
    """
    dumped = sorted(dump.rank for dump in dumps if Path(dump.source).parent == attempt)
    beside = statuses.get(attempt.parent / wire.STATUS_FILE, ())
    only = next(iter(statuses.values())) if len(statuses) == 1 and dumped else ()
    return next((ranks for ranks in (beside, dumped, only) if len(ranks) >= count and {*dumped} <= {*ranks}), ())


def parse_stack(text: str, source: str) -> RankStack | None:
    """Returns the stack of the last thread of a dump, which is the main thread; None where there is none."""
    lines = text.splitlines()
    begin = max((number for number, line in enumerate(lines) if _THREAD.match(line)), default=None)
    if begin is None:
        return None
    found = (_FRAME.match(line) for line in lines[begin + 1 : begin + 1 + _MAX_FRAMES])
    frames = tuple(_frame(each) for each in found if each)
    return RankStack(frames, program_frame(frames), source)


def _newest_part(path: Path) -> tuple[str, int]:
    """Returns the end of a file and its modification time; "" if it cannot be read."""
    try:
        with open_regular(path) as file:
            about = os.fstat(file.fileno())
            file.seek(max(0, about.st_size - MAX_STACK_BYTES))
            return file.read(MAX_STACK_BYTES).decode(errors="replace"), about.st_mtime_ns
    except OSError:  # the reader of logs reports files that cannot be read
        return "", 0


def _frame(found: re.Match[str]) -> SourceFrame:
    function, file = (wire.escape_line(text[-MAX_TEXT:]) for text in (found[3], found[1]))
    return SourceFrame(function, file, int(found[2]))
