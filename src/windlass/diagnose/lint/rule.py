"""The table of rules. A rule is a function from a part of a file to its faults; its docstring states the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from windlass.diagnose.lint.findings import RuleSeverity

Check: TypeAlias = Callable[[Any], Iterator[Any]]
"""Returns the faults (`Hit`) of the part that `Rule.subject` names; of INPUT, pairs of a document and its fault."""


class Subject(StrEnum):
    """The part of the input that a rule is called with."""

    DOCUMENT = "document"
    """`documents.Document`; only of the kinds of the rule, if it names some."""
    POD = "pod"
    """`pod_templates.PodTemplate`."""
    CONTAINER = "container"
    """`pod_templates.Container`."""
    ENVIRONMENT = "environment"
    """`environment.Environment`: the variables of a container, of a batch script, or of a job file."""
    SCRIPT = "script"
    """`batch_script.LintedScript`."""
    INPUT = "input"
    """`documents.Documents`: all documents of one input, for references between them. Yields (Document, Hit)."""
    ENGINE = "engine"
    """The engine itself finds these."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    severity: RuleSeverity
    subject: Subject
    why: str
    fix: str
    source: str
    """Link to the document that states the fact."""
    check: Check
    kinds: frozenset[str] = frozenset()
    is_general: bool = False
    """It is left out at a place at which another rule finds an error."""


RULES: dict[str, Rule] = {}
"""All rules by id, in the order of their modules."""


def rule(
    severity: RuleSeverity, subject: Subject, *, fix: str, source: str, kinds: str = "", is_general: bool = False
) -> Callable[[Check], Check]:
    """Enters a function in the table. Its name is the rule's id, its docstring the reason; `kinds` is a word list."""

    def enter(check: Check) -> Check:
        name = check.__name__.replace("_", "-")
        why = " ".join((check.__doc__ or "").split())
        RULES[name] = Rule(name, severity, subject, why, fix, source, check, frozenset(kinds.split()), is_general)
        return check

    return enter
