"""Changes the requests of a job for what-if questions: "gpus=4 replicas=2 time=1h queue=b"."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, get_type_hints

from windlass.core.model.job import Job
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.rendering import render
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.names import did_you_mean

REQUEST_OPTIONS = (
    *("nodes", "gpus", "gpu_share", "mig", "gpu_type", "cpus", "mem", "queue", "priority", "time"),
    *("selector", "affinity", "topology", "avoid", "whole_node", "preemptible"),
)
"""The options that may change the order of starts."""
_FIELD_NAMES = {"replicas": "nodes", "n": "nodes", "g": "gpus", "exclude": "avoid", "exclusive": "whole_node"}
_HINTS = get_type_hints(RunOptions)


def with_changes(job: Job, words: str) -> Job:
    """The job with these fields changed. Raises ValueError with a text that names the fault."""
    options = _options(words)
    try:
        (submission,) = loads(render(Submission(replace(job, workdir="/")), "json"), user=job.user, options=options)
    except InputError as error:
        raise ValueError("; ".join(problem.message for problem in error.problems)) from None
    return replace(submission.job, array=job.array, labels=job.labels, workdir=job.workdir)


def _options(words: str) -> RunOptions:
    values: dict[str, Any] = {}
    for word in _split(words):
        name, equals, text = word.partition("=")
        plain = name.replace("-", "_").lower()
        field = _FIELD_NAMES.get(plain, plain)
        if field not in REQUEST_OPTIONS:
            raise ValueError(
                f"{name[:40]!r} is nothing that could be asked for otherwise{did_you_mean(plain, REQUEST_OPTIONS)}"
            )
        if not equals or not text:
            raise ValueError(f"{word[:40]!r} is no change; write for example {field}=2")
        if field in values:
            raise ValueError(f"{name} is given twice")
        values[field] = _typed(field, text)
    if not values:
        raise ValueError("says nothing; write for example gpus=4 or 'replicas=2 time=1h'")
    return RunOptions(**values)


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise ValueError(f"has quotes that are not balanced ({str(error).lower()})") from None


def _typed(field: str, text: str) -> Any:
    hint = _HINTS[field]
    if hint == tuple[str, ...]:
        return (text,)
    if hint == bool | None:
        if text not in ("true", "false"):
            raise ValueError(f"{field} is true or false, not {text[:40]!r}")
        return text == "true"
    if hint == int | None:
        if not text.removeprefix("-").isdecimal() or len(text) > 15:
            raise ValueError(f"{field} is a number, not {text[:40]!r}")
        return int(text)
    return text
