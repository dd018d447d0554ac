"""Finds the flight recorder dumps among files, by their content, and reads the newest of each rank."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass import wire
from windlass.diagnose.failures.log_files import open_regular
from windlass.diagnose.flight.dump_format import MAX_RANK, is_dump, parse_dump
from windlass.diagnose.flight.records import DumpError, FlightDump

MAX_DUMP_BYTES = 64 << 20
_HEAD_BYTES = 64 << 10
_RANK = re.compile(r"(?:^|[^a-zA-Z])r(?:ank)?[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(?<!\d)(\d{1,7})(?:\.\w+)?\Z")
_ATTEMPT = re.compile(r"attempt[-_]?(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """Dumps of all ranks, the files that they were read from, and what is wrong with other dumps."""

    dumps: Sequence[FlightDump] = ()
    paths: frozenset[Path] = frozenset()
    """Every file that is a dump, readable or not."""
    problems: Sequence[str] = ()


def read_dump_files(paths: Iterable[Path]) -> DumpFiles:
    """Returns the dumps of the latest attempt among these files; other files are left out."""
    dumps: list[FlightDump] = []
    found, problems = set(), []
    paths = sorted(paths)
    attempts = _attempts_of(paths)
    for path in paths:
        try:
            data, written_ns = _read_candidate(path)
            if not data:
                continue
            found.add(path)
            if attempts[path] in (0, max(attempts.values())):
                dumps.append(parse_dump(data, _rank_of(path), str(path), written_ns))
        except DumpError as error:
            found.add(path)
            problems.append(f"{wire.escape_line(str(path))} {error}")
        except OSError:  # the reader of logs reports files that cannot be read
            continue
    return DumpFiles(_choose(dumps), frozenset(found), problems)


def _read_candidate(path: Path) -> tuple[bytes, int]:
    """Returns the content of a file that may be a dump, and its time; no content of any other file."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        head = file.read(_HEAD_BYTES)
        if not is_dump(head):
            return b"", 0
        data = head + file.read(MAX_DUMP_BYTES)
    if len(data) > MAX_DUMP_BYTES:
        raise DumpError(f"is larger than {MAX_DUMP_BYTES >> 20} MiB: set a smaller TORCH_FR_BUFFER_SIZE")
    return data, status.st_mtime_ns


def _rank_of(path: Path) -> int:
    """Rank in the name of a file or, where its name has no number, of its folder."""
    for name in (path.name, path.parent.name):
        found = _RANK.findall(name) or _LAST_NUMBER.findall(name)
        if found and int(found[-1]) < MAX_RANK:
            return int(found[-1])
    raise DumpError("has no rank in its name: rename it to nccl_trace_rank_N")


def _attempts_of(paths: Sequence[Path]) -> dict[Path, int]:
    """Attempt by path, from 1, from the names of the folders in which the paths differ; 0 without one."""
    folders = {path: path.absolute().parent for path in paths}
    shared = len(Path(os.path.commonpath(folders.values())).parts) if folders else 0
    found = {path: [_ATTEMPT.fullmatch(part) for part in folder.parts[shared:]] for path, folder in folders.items()}
    return {path: next((int(each[1]) + 1 for each in reversed(names) if each), 0) for path, names in found.items()}


def _choose(dumps: Sequence[FlightDump]) -> list[FlightDump]:
    """The newest dump of each rank and backend, joined to one of each rank."""
    newest: dict[int, dict[str, FlightDump]] = defaultdict(dict)
    for dump in sorted(dumps, key=_age):
        for backend in {entry.backend for entry in dump.entries} or {""}:
            newest[dump.rank][backend] = dump
    return [_join(each) for _, each in sorted(newest.items())]


def _age(dump: FlightDump) -> tuple[int, bool, int]:
    """Sorts dumps from the oldest to the newest; of two copies the one with stacks is last."""
    last = dump.entries[-1] if dump.entries else None
    return (last.created_ns if last else 0, bool(last and last.frame), dump.written_ns)


def _join(by_backend: dict[str, FlightDump]) -> FlightDump:
    """One dump of the operations of all backends of a rank, in the order of their times."""
    if len(by_backend) > 1:
        by_backend.pop("", None)
    dumps = list(by_backend.values())
    if len(dumps) == 1:
        return dumps[0]
    entries = [entry for backend, dump in by_backend.items() for entry in dump.entries if entry.backend == backend]
    members = {group: ranks for dump in dumps for group, ranks in dump.members.items()}
    written_ns = max(dump.written_ns for dump in dumps)
    is_wrapped = any(dump.is_wrapped for dump in dumps)
    ordered = sorted(entries, key=lambda entry: entry.created_ns)
    return FlightDump(dumps[0].rank, dumps[0].source, ordered, members, is_wrapped, written_ns)
