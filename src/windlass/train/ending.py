"""How a rank ends by an error: told once, with an exit code that says whether starting again would help."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from windlass import wire
from windlass.train import process
from windlass.train.checkpoint.store.errors import CheckpointError, may_pass
from windlass.train.errors import TrainError
from windlass.train.health import last_words


def fail(error: Exception, rank: int) -> None:
    """End this rank, as all others will. What is not ours is told by Python, unless it is another rank's failure."""
    leave_with_others(error)
    ours = isinstance(error, TrainError | CheckpointError)
    passes = isinstance(error, CheckpointError) and may_pass(error)
    code = (wire.RankExitCode.RETRY if passes else wire.RankExitCode.FATAL) if ours else 1
    why = str(error) if ours else wire.describe_error(error)
    wire.write_error_file(why, error)
    speaks = last_words.told(last_words.Words(rank, code, why))
    if not ours and (end := last_words.end_of_another(error)) and process.has_agent_store():
        _say_that_one_is_gone(end, rank)
    if ours:
        if speaks:
            sys.stderr.write(f"windlass: rank {rank}: {error}\n" if rank else f"windlass: {error}\n")
        raise SystemExit(code) from None


def leave_with_others(error: Exception) -> None:
    """Without a word, if this is what another rank's failure looks like from here and that rank has told it."""
    if last_words.is_of_others(error) and (other := last_words.heard()):
        wire.write_error_file(f"rank {other.rank}: {other.why}", error)
        raise SystemExit(other.code) from None


def refuse_start(error: TrainError, teller: str) -> NoReturn:
    """Before anything is sent: the rank that is the first by this variable says why."""
    wire.write_error_file(str(error), error)
    if os.environ.get(teller, "0") == "0":
        sys.stderr.write(f"windlass: {error}\n")
    sys.exit(wire.RankExitCode.FATAL)


def _say_that_one_is_gone(end: str, rank: int) -> NoReturn:
    """In one line: the agent says who, and where this rank was then is of no help to anybody."""
    sys.stderr.write(f"windlass: rank {rank}: another rank is gone ({end})\n")
    raise SystemExit(1) from None


def in_good_order(error: BaseException) -> bool:
    """Whether all ranks leave together."""
    return isinstance(error, SystemExit) and error.code in (None, 0, wire.RankExitCode.PREEMPTED)
