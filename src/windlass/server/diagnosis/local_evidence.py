"""Evidence of a job on this machine: output of its ranks and agents, heartbeats, flight recorders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from windlass.backends.local.logs import log_files
from windlass.backends.local.paths import StatePaths
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedFile, LoggedText
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
    )


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
    """Yields the rank status files of agents, and what ranks of a gang that hangs have written beside them."""
    for count, path in enumerate(path for path in sorted(logs.glob("*/**/*")) if path.is_file()):
        if count >= _MAX_HANG_FILES:
            return
        yield str(path)
