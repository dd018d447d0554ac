"""The verdict of a diagnosis on one failed attempt, as far as the controller needs it."""

from __future__ import annotations

from dataclasses import dataclass

STOP, AVOID_NODE = "stop", "avoid-node"
"""Advices with an effect on the next attempt (`windlass.diagnose.diagnosis.Advice`)."""
CERTAIN, POSSIBLE = "certain", "possible"
"""The strongest and the weakest certainty (`windlass.diagnose.diagnosis.Certainty`)."""
NODE_SCOPE, JOB_SCOPE = "node", "job"
BY_VERDICT = "(restart.verdict): "
"""Words of a message that a verdict follows. A verdict is no evidence for another one."""
MAX_EQUAL_FAILURES = 3
"""Number of starts that fail alike at the same step after which another start is futile."""
MAX_TEXT = 1_024
"""Maximum length of a verdict's text in bytes."""


@dataclass(frozen=True, slots=True)
class DiagnosedCause:
    """Root cause of the failure of one generation. Without a `rule` the evidence points to no known cause."""

    generation: int
    text: str
    """One sentence for users, without secrets, of at most `MAX_TEXT` bytes."""
    rule: str = ""
    """Id of the rule."""
    certainty: str = ""
    scope: str = ""
    advice: str = ""
    node: str = ""
    """Node that the cause names."""
    rank: int | None = None
    fix: str = ""
    unseen: str = ""
    """Evidence that could not be read, for example logs without the right to read them."""
    is_confirmed: bool = False
    """Whether evidence that no program can write leads to the same node, without the output of the job."""
    is_late: bool = False
    """Whether the next attempt had started before a verdict came that the restart was to wait for."""
    equal_failures: int = 0
    """Starts in a row, up to this one, in which the same rank failed in the same way after the same step."""


def node_to_avoid(cause: DiagnosedCause) -> str:
    """Returns the node that the next attempts of this job avoid; "" if none.

    The verdict may rest on what the job's own programs print, so nothing follows from it for other jobs.
    """
    is_certain = cause.certainty == CERTAIN and cause.scope == NODE_SCOPE and cause.advice == AVOID_NODE
    return cause.node if is_certain else ""


def proven_bad_node(cause: DiagnosedCause) -> str:
    """Returns the node that the verdict proves to be bad for every job; "" if it proves none."""
    return node_to_avoid(cause) if cause.is_confirmed else ""


def is_lasting(cause: DiagnosedCause) -> bool:
    """Tells whether another attempt would fail in the same way, by more than a possible cause."""
    return cause.advice == STOP and cause.certainty not in ("", POSSIBLE)


def is_repeated(cause: DiagnosedCause) -> bool:
    """Tells whether the job fails in the same way in each start, and no node is known to be the reason."""
    return cause.equal_failures >= MAX_EQUAL_FAILURES and not node_to_avoid(cause)


def clip_text(text: str) -> str:
    """Returns a text on one line in at most `MAX_TEXT` bytes of UTF-8."""
    line = " ".join(text.split())
    raw = line.encode(errors="replace")
    return line if len(raw) <= MAX_TEXT else raw[: MAX_TEXT - 3].decode(errors="ignore") + "…"
