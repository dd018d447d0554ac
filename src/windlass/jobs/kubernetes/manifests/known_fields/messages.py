"""Unknown fields as people are told of them: with file and line, each once."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.jobs.errors import JobError, Place, Problem
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.types import JOB_FILE, kubernetes_version
from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import Unknown, unknown_below
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import compose


def way_out() -> str:
    """For whoever knows better."""
    newer = f"of another Kubernetes than {kubernetes_version()} for instance"
    return f"if a field is right all the same, {newer}, --validate warn lets it pass"


def as_problems(text: Text, unknown: Iterable[Unknown]) -> list[Problem]:
    """For whoever is refused."""
    return [text.problem(str(each), each.place) for each in _once(unknown)]


def as_warnings(text: Text, unknown: Iterable[Unknown]) -> list[str]:
    """For whoever goes on, one line each."""
    return [f"{text.source}:{each.place.line}: {each}" for each in _once(unknown)]


def warnings_of_job_file(text: Text, validate: Validate) -> list[str]:
    """What is told of the pod templates in a job file, of which its own reader reads nothing. Raises JobError."""
    found = [each for node in compose(text) for each in unknown_below(node, JOB_FILE) if "pod" in each.path[:-1]]
    if found and validate is Validate.STRICT:
        raise JobError(as_problems(text, found), way_out())
    return as_warnings(text, found) if validate is Validate.WARN else []


def _once(unknown: Iterable[Unknown]) -> list[Unknown]:
    """What an anchor names stands in several places of the manifests, and in one of the file."""
    found: dict[Place, Unknown] = {}
    for each in unknown:
        found.setdefault(each.place, each)
    return list(found.values())
