"""Messages about unknown fields, with file and line, each once."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.jobs.errors import InputError, Place, Problem
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.types import JOB_FILE, kubernetes_version
from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import UnknownField, unknown_below
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import compose


def give_hint() -> str:
    """Returns the hint for users whose field is valid although this version does not know it."""
    example = f"for example in another Kubernetes version than {kubernetes_version()}"
    return f"if a field is valid nevertheless, {example}, --validate warn accepts it"


def as_problems(text: Text, unknown: Iterable[UnknownField]) -> list[Problem]:
    """The unknown fields as problems of a refusal."""
    return [text.problem(str(each), each.place) for each in _once(unknown)]


def as_warnings(text: Text, unknown: Iterable[UnknownField]) -> list[str]:
    """The unknown fields as warnings, one line each."""
    return [f"{text.source}:{each.place.line}: {each}" for each in _once(unknown)]


def warnings_of_job_file(text: Text, validate: Validate) -> list[str]:
    """Warnings for the pod templates in a job file, which its own reader does not check. Raises InputError."""
    found = [each for node in compose(text) for each in unknown_below(node, JOB_FILE) if "pod" in each.path[:-1]]
    if found and validate is Validate.STRICT:
        raise InputError(as_problems(text, found), give_hint())
    return as_warnings(text, found) if validate is Validate.WARN else []


def _once(unknown: Iterable[UnknownField]) -> list[UnknownField]:
    """Each unknown field once: an anchored one occurs in several places of the manifests, and in one of the file."""
    found: dict[Place, UnknownField] = {}
    for each in unknown:
        found.setdefault(each.place, each)
    return list(found.values())
