"""Evidence of a job on this machine: output of its ranks and agents, heartbeats, flight recorders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from windlass.backends.local.logs import log_files
from windlass.backends.local.paths import StatePaths
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedFile, LoggedText
from windlass.server.diagnosis.failed_starts import FailedStart, failed_starts
from windlass.server.diagnosis.job_record import record_texts

Json = Mapping[str, Any]

_MAX_HANG_FILES = 4_096


def local_evidence(paths: StatePaths, details: Json, attempt: int) -> EvidenceRequest:
    """Returns the evidence of one attempt. `details`: all details of the job."""
    tasks = {task["rank"]: task for task in details["tasks"] if task["generation"] == attempt}
    uses_agents = details["spec"]["launcher"] == "agent"
    nodes = {} if uses_agents else {rank: task["node"] for rank, task in tasks.items()}
    files = list(_rank_files(paths, details["id"], attempt, nodes))
    return EvidenceRequest(
        attempt=attempt,
        files=files,
        texts=record_texts(details, attempt) + _silent_ranks(files, nodes),
        hang_files=list(_hang_files(paths.generation_logs(details["id"], attempt))),
        expected_ranks=details["ranks"] if uses_agents else len(tasks) or None,
        starts=[_with_streams(each, paths, details["id"]) for each in failed_starts(details, attempt)],
    )


def _with_streams(start: FailedStart, paths: StatePaths, job_id: str) -> FailedStart:
    files = log_files(paths, job_id, start.attempt, ranks=[start.rank])
    return replace(start, streams=[str(file.path) for file in files])


def _rank_files(paths: StatePaths, job_id: str, attempt: int, nodes: Mapping[int, str]) -> Iterator[LoggedFile]:
    for file in log_files(paths, job_id, attempt):
        is_agent = file.rank < 0
        name = f"agent {-1 - file.rank}" if is_agent else f"rank {file.rank}"
        rank = None if is_agent else file.rank
        yield LoggedFile(
            f"{name} {file.stream}", str(file.path), rank, nodes.get(file.rank), is_stream=True, is_complete=True
        )


def _silent_ranks(files: list[LoggedFile], nodes: Mapping[int, str]) -> list[LoggedText]:
    """Returns an empty log for each rank that has printed nothing: its file does not exist."""
    printed = {file.rank for file in files}
    return [LoggedText(f"rank {rank}", "", rank, node) for rank, node in nodes.items() if rank not in printed]


def _hang_files(logs: Path) -> Iterator[str]:
    """Yields the rank status files of agents, and what ranks of a gang that hangs have written beside them.

    Ranks can write these folders: links are not followed, neither to files nor to folders.
    """
    folders = (each.path for each in sorted(_entries(logs), key=lambda each: each.name) if _is_folder(each))
    found = (path for folder in folders for path in _regular_files(folder))
    yield from islice(found, _MAX_HANG_FILES)


def _regular_files(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):  # follows no links
        folders.sort()
        paths = (os.path.join(where, name) for name in sorted(names))  # noqa: PTH118 - thousands of names
        yield from (path for path in paths if stat.S_ISREG(os.lstat(path).st_mode))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)
