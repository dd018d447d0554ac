"""Ends a rank after an error: reports it once, with an exit code that says whether a restart can help."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from windlass import wire
from windlass.train import process_group
from windlass.train.checkpoint.store.errors import CheckpointError, is_retryable
from windlass.train.errors import TrainError
from windlass.train.health import failure_report


def exit_with_error(error: Exception, rank: int) -> None:
    """Report an error that ends this rank, after which all others end too.

    Raises SystemExit for errors of Windlass, and for those that a lost peer caused if that peer has published a report
    or an agent names it. Returns for other errors of the script, which Python prints.
    """
    exit_if_peer_failed(error)
    is_ours = isinstance(error, TrainError | CheckpointError)
    passes = isinstance(error, CheckpointError) and is_retryable(error)
    code = (wire.RankExitCode.RETRY if passes else wire.RankExitCode.FATAL) if is_ours else 1
    why = str(error) if is_ours else wire.describe_error(error)
    wire.write_error_file(why, error)
    prints = failure_report.publish(failure_report.FailureReport(rank, code, why))
    if not is_ours and (end := failure_report.lost_connection_text(error)) and process_group.has_agent_store():
        _exit_for_lost_connection(end, rank)
    if is_ours:
        if prints:
            sys.stderr.write(f"windlass: rank {rank}: {error}\n" if rank else f"windlass: {error}\n")
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
