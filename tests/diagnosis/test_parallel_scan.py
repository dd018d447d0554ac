"""Large logs are scanned in processes; the findings are those of threads."""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from windlass.diagnose.failures import parallel_scan
from windlass.diagnose.failures.evidence import LogSource
from windlass.diagnose.failures.log_files import find_logs
from windlass.diagnose.failures.log_scan import LogFindings
from windlass.diagnose.failures.parallel_scan import scan_logs

OUT_OF_MEMORY = b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


@pytest.fixture
def logs(tmp_path: Path) -> list[LogSource]:
    """Files of two ranks, of which the second runs out of memory, and text that only this process has."""
    for rank, end in enumerate((b"", OUT_OF_MEMORY)):
        (tmp_path / f"rank{rank}.log").write_bytes(b"step 1 loss 0.5\n" * 1000 + end)
    return [*find_logs([str(tmp_path)]), LogSource("events", lambda: BytesIO(OUT_OF_MEMORY))]


def told(found: list[LogFindings]) -> list[tuple[str, int, list[str], set[int]]]:
    return [(log.source.name, log.lines, [fact.rule for fact, _ in log.facts], log.ranks) for log in found]


def test_processes_find_what_threads_find_and_tell_the_bytes_read(
    logs: list[LogSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = told(scan_logs(logs))
    assert [rules[:1] for _, _, rules, _ in expected] == [[], ["cuda-out-of-memory"], ["cuda-out-of-memory"]]
    monkeypatch.setattr(parallel_scan, "_PROCESS_BYTES", 1)
    read: list[int] = []
    assert told(scan_logs(logs, read.append)) == expected
    assert sum(read) >= sum(log.size for log in logs)


def _open_or_die(path: str) -> BinaryIO:
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return Path(path).open("rb")


def test_a_killed_process_loses_no_log(logs: list[LogSource], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_scan, "_PROCESS_BYTES", 1)
    files = [LogSource(log.name, partial(_open_or_die, log.name), size=log.size) for log in logs[:2]]
    assert told(scan_logs(files)) == told(scan_logs(logs[:2]))
