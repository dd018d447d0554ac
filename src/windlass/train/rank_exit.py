"""Ends a rank after an error: reports it once, with an exit code that says whether a restart can help."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import NoReturn

from windlass import wire
from windlass.train import process_group
from windlass.train.checkpoint.store.errors import CheckpointError, is_retryable
from windlass.train.errors import TrainError
from windlass.train.health import failure_report

_INTERRUPTED = 130


@contextlib.contextmanager
def bound_end(error: BaseException | None, world: process_group.World) -> Iterator[None]:
    """Ends this process after `wire.EXIT_TIMEOUT` if `error` ends it and the block, or Python's own end, takes longer.

    Both may wait for other ranks: the store of a stopped rank, a thread in a collective that never returns. The time
    between the block and Python's end is the script's own, and not limited.
    """
    if error is None or is_clean_exit(error) or world.size == 1:
        yield
        return
    code = _exit_code(error)
    timer = wire.exit_after_timeout(code, _describe(error, world.rank))
    try:
        yield
    except SystemExit as left:
        code = _exit_code(left)
        raise
    finally:
        timer.cancel()
        threading._register_atexit(  # type: ignore[attr-defined]  # noqa: SLF001 - before Python joins threads
            functools.partial(wire.exit_after_timeout, code)
        )


def _exit_code(error: BaseException) -> int:
    """Exit code of a process that this error ends."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, TrainError | CheckpointError):
        passes = isinstance(error, CheckpointError) and is_retryable(error)
        return wire.RankExitCode.RETRY if passes else wire.RankExitCode.FATAL
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _describe(error: BaseException, rank: int) -> str:
    """Text about the error that ends this rank, for its output."""
    if isinstance(error, TrainError | CheckpointError):
        return f"windlass: rank {rank}: {error}\n" if rank else f"windlass: {error}\n"
    return "" if isinstance(error, SystemExit) else "".join(traceback.format_exception(error))


def exit_with_error(error: Exception, rank: int) -> None:
    """Report an error that ends this rank, after which all others end too.

    Raises SystemExit for errors of Windlass, and for those that a lost peer caused if that peer has published a report
    or an agent names it. Returns for other errors of the script, which Python prints.
    """
    is_ours, code = isinstance(error, TrainError | CheckpointError), _exit_code(error)
    why = str(error) if is_ours else wire.describe_error(error)
    wire.write_error_file(why, error)  # first: the store of all ranks may not answer
    exit_if_peer_failed(error)
    prints = failure_report.publish(failure_report.FailureReport(rank, code, why))
    if not is_ours and (end := failure_report.lost_connection_text(error)) and process_group.has_agent_store():
        _exit_for_lost_connection(end, rank)
    if is_ours:
        if prints:
            sys.stderr.write(_describe(error, rank))
        raise SystemExit(code) from None


def exit_if_peer_failed(error: Exception) -> None:
    """Exit silently if the error is only the consequence of another rank's failure, and that rank has reported it."""
    if failure_report.is_peer_failure(error) and (other := failure_report.read_peer_report()):
        wire.write_error_file(f"rank {other.rank}: {other.why}", error)
        raise SystemExit(other.code) from None


def refuse_start(error: TrainError, rank_variable: str) -> NoReturn:
    """Exit before anything is sent. The rank whose variable `rank_variable` is 0 prints the reason."""
    wire.write_error_file(str(error), error)
    if os.environ.get(rank_variable, "0") == "0":
        sys.stderr.write(f"windlass: {error}\n")
    sys.exit(wire.RankExitCode.FATAL)


def _exit_for_lost_connection(end: str, rank: int) -> NoReturn:
    """Exit with one line for a lost connection; the agent names the lost rank, and a traceback here adds nothing."""
    sys.stderr.write(f"windlass: rank {rank}: another rank is gone ({end})\n")
    raise SystemExit(1) from None


def is_clean_exit(error: BaseException) -> bool:
    """Whether all ranks leave together by intention."""
    return isinstance(error, SystemExit) and error.code in (None, 0, wire.RankExitCode.PREEMPTED)
