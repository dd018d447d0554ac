"""The time limit of a batch script and the signal before its end, as walltime and grace of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.jobs.imports.outcomes import Loss, Outcome, Setting
from windlass.jobs.slurm.gang_size import Options, OptionValueError, option_value
from windlass.jobs.slurm.option_values import parse_time_limit
from windlass.jobs.syntax.durations import format_duration

TIME_OPTIONS = frozenset({"--time", "--signal"})
"""Options that this module reads."""
_SIGNAL = re.compile(r"(?:[RB]+:)?(?:SIG)?([A-Za-z0-9]+)(?:@([0-9]{1,6}))?")
_DEFAULT_S = 60
"""Seconds from the signal to the end, where --signal states none."""


def read_times(options: Options) -> Iterator[Outcome]:
    """Walltime and grace: a signal N seconds before the end is SIGTERM at the walltime, with a grace of N seconds."""
    limit = option_value(options, "--time", parse_time_limit)
    early, losses = _signal(options)
    yield from losses
    if early and limit is None:
        yield Loss(options["--signal"].place, "--signal", "without a time limit no signal is sent")
        early = 0
    if early and limit is not None and early < limit:
        limit -= early
    if limit is not None:
        yield Setting("time", format_duration(limit))
    if early:
        yield Setting("grace", format_duration(early))


def _signal(options: Options) -> tuple[int, list[Loss]]:
    """Milliseconds before the end, and the loss if programs wait for another signal than SIGTERM."""
    option = options.get("--signal")
    if option is None:
        return 0, []
    found = _SIGNAL.fullmatch(option.value)
    if found is None:
        raise OptionValueError(option, f"expects SIGNAL@SECONDS, not {option.value[:40]!r}")
    early = int(found[2] or _DEFAULT_S) * 1000
    if found[1].upper() in ("TERM", "15"):
        return early, []
    return early, [Loss(option.place, "--signal", f"ranks get SIGTERM and not {found[1]}; let the program handle it")]
