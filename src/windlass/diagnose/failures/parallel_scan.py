"""Scans the logs of a job side by side: in processes where the logs are large, else in threads."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import Any

from windlass.diagnose.failures.evidence import LogSource
from windlass.diagnose.failures.log_scan import LogFindings, scan_log

_WORKERS = 2
_PROCESS_BYTES = 64 << 20
"""Size of all logs from which two processes are faster than two threads, which share the interpreter's lock."""
_PROGRESS_S = 0.2

_read_bytes: Any = None
"""In a process of the pool: number of bytes that all of its processes have read, in shared memory."""


def scan_logs(sources: Sequence[LogSource], report_bytes: Callable[[int], object] = int) -> list[LogFindings]:
    """The findings of each log. `report_bytes` is called with the bytes that were read since, in any thread."""
    if len(sources) < 2:
        return [scan_log(source, report_bytes) for source in sources]
    if sum(source.size for source in sources) >= _PROCESS_BYTES:
        # a process of the pool was killed, or there is no shared memory: threads need neither
        with contextlib.suppress(BrokenExecutor, OSError):
            return _scan_in_processes(sources, report_bytes)
    with ThreadPoolExecutor(_WORKERS) as threads:
        return list(threads.map(lambda source: scan_log(source, report_bytes), sources))


def _scan_in_processes(sources: Sequence[LogSource], report_bytes: Callable[[int], object]) -> list[LogFindings]:
    """Scans files in new processes; all other sources, which only this process can open, after them."""
    from concurrent.futures import ProcessPoolExecutor, wait  # noqa: PLC0415 - 20 ms, and only for large logs
    from multiprocessing import get_context  # noqa: PLC0415 - see above

    context = get_context("spawn")  # a fork of a process with threads can wait for a lock for ever
    read, told = context.Value("Q", 0), 0
    with ProcessPoolExecutor(_WORKERS, context, _start_worker, (read,)) as pool:
        work = {n: pool.submit(_scan_file, source) for n, source in enumerate(sources) if source.size}
        pending = set(work.values())
        while pending:
            _, pending = wait(pending, _PROGRESS_S)
            report_bytes(read.value - told)
            told = read.value
    return [work[n].result() if n in work else scan_log(source, report_bytes) for n, source in enumerate(sources)]


def _start_worker(read_bytes: Any) -> None:
    """Prepares a process of the pool. SIGINT ends it without a traceback; the parent tells the user."""
    global _read_bytes  # noqa: PLW0603 - shared memory reaches a process only when it starts
    _read_bytes = read_bytes
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _scan_file(source: LogSource) -> LogFindings:
    return scan_log(source, _count_bytes)


def _count_bytes(read: int) -> None:
    with _read_bytes.get_lock():
        _read_bytes.value += read
