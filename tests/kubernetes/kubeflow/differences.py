"""The intended differences between Kubeflow's operators and ours, each with its reason: rows of the guide's table.

A difference that no row names fails the test, and so does a row that nothing needs any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .compared import Difference


@dataclass(frozen=True, slots=True)
class Intended:
    """Differences with one reason. `case` and `path` are patterns for the whole of both."""

    what: str
    reason: str
    path: str
    case: str = ".*"
    verdict: str = "different"
    """`better` or `different`."""
    theirs: str = ".*"
    ours: str = ".*"
    """Patterns for both sides of the difference, as text."""

    def covers(self, found: Difference) -> bool:
        """Tells whether this is the reason of a difference."""
        pairs = (
            (self.path, found.path),
            (self.case, found.case),
            (self.theirs, str(found.theirs)),
            (self.ours, str(found.ours)),
        )
        return all(_pattern(pattern).fullmatch(text) for pattern, text in pairs)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


INTENDED: tuple[Intended, ...] = (
    Intended(
        "spec.schedulerName of pods",
        "Windlass places the pods of its jobs itself, all of a job at once.",
        r"\d+/pods/[^/]+/spec/schedulerName",
        ours="windlass",
    ),
    Intended(
        "securityContext of init containers that the operator adds",
        "They pass the `restricted` pod security standard.",
        r"\d+/pods/[^/]+/spec/initContainers/[^/]+/securityContext",
        verdict="better",
    ),
    Intended(
        "events of a job",
        "One event for each change of the job's state, which names nodes and reasons.",
        r"\d+/events.*",
    ),
    Intended(
        "condition `Admitted`",
        "An additional condition: the nodes, or the reason why the job waits.",
        r"\d+/job/conditions/Admitted",
        verdict="better",
        theirs="nothing",
    ),
    Intended(
        "`completionTime` of a failed job",
        "It says when the job failed; training-operator leaves it out.",
        r"\d+/job/completionTime",
        verdict="better",
        theirs="False",
        ours="True",
    ),
)
