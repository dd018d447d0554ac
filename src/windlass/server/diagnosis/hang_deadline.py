"""The time at which the hang detector of a job's agents acts at the earliest, as a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windlass.agent.hang_detection import HangLimits, shortest_limit
from windlass.agent.options import CommandLineError, parse_hang_limits
from windlass.wire import OPEN_PHASES

Json = Mapping[str, Any]
_VARIABLE = "WINDLASS_HANG"


def describe_hang_deadline(details: Json, phase: str | None) -> str:
    """Returns what the hang detector waits for, and the setting that changes it.

    `details`: all details of the job; `phase`: that of the rank that is furthest behind, None without heartbeats.
    """
    if details["spec"]["launcher"] != "agent":
        return f"none with the launcher {details['spec']['launcher']}; agents have it: --launcher agent"
    limits = _limits(details)
    if phase is None:
        return _silence(limits.silence)
    name, seconds = shortest_limit(phase, limits, is_known=phase not in OPEN_PHASES)
    if seconds in (0, math.inf):
        return f"no limit for the phase {phase}; --env {_VARIABLE}={name}=SECONDS sets one"
    return (
        f"the agents act once a rank has been in the phase {phase} for {seconds:g} s, or longer than usual if that is "
        f"more; --env {_VARIABLE}={name}=SECONDS changes it"
    )


def _silence(seconds: float) -> str:
    if not seconds:
        return f"no limit for ranks without heartbeats; --env {_VARIABLE}=silence=600 sets one of 600 s without output"
    return f"the agents act after {seconds:g} s without output (--env {_VARIABLE}=silence=SECONDS)"


def _limits(details: Json) -> HangLimits:
    """Returns the limits of the job's agents; the default ones where the setting has an error, which ends the job."""
    given = next((role["env"][_VARIABLE] for role in details["spec"]["roles"] if _VARIABLE in role["env"]), "")
    try:
        return parse_hang_limits(str(given))
    except CommandLineError:
        return HangLimits()
