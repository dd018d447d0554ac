"""Manifests of a learner, read by Windlass's own reader and rules. Nothing is created from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.diagnose.lint.engine import lint_texts
from windlass.diagnose.lint.findings import LintFinding
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifests.manifest_file import objects_of
from windlass.jobs.syntax.text import Text
from windlass.labs.evidence.findings import EvidenceError


def lint_manifests(name: str, text: str) -> Sequence[LintFinding]:
    """Returns the findings of `windlass lint`, also those that a comment of the file ignores."""
    return lint_texts([Text(name, text.replace("windlass:", ""))])


def rendered_pods(name: str, text: str) -> Sequence[Mapping[str, Any]]:
    """Returns the pods that the manifests of jobs become, as the operator creates them. Raises EvidenceError."""
    try:
        objects = objects_of(Text(name, text)).objects
    except InputError as error:
        raise EvidenceError(f"{name} cannot be read: {error}", f"windlass render --for kubernetes {name}") from None
    return [each for each in objects if each.get("kind") == "Pod"]
