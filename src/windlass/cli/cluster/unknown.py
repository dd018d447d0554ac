"""What to say of a name that no job has: the nearest ones, and where a job is that has it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.cli.cluster.naming import Meant
from windlass.cli.cluster.states import Found
from windlass.jobs.names import nearest
from windlass.server.errors import ApiError, Code

_SHOWN = 3
_USUAL = "windlass queue lists jobs, windlass history those that ended; -n NAMESPACE looks in another namespace"


def nobody(text: str, wanted: Meant, known: Sequence[Found]) -> ApiError:
    """`text`: what was typed, of which `wanted` is the likeliest meaning; `known`: jobs that the user may see."""
    no = f"no job {text[:80]!r} in namespace {wanted.namespace}"
    if there := [each for each in known if wanted.name in _names(each)]:
        ids = ", ".join(sorted({_id(each, wanted.name) for each in there})[:_SHOWN])
        namespaces = sorted({each.namespace for each in there})
        return ApiError(Code.NO_SUCH_JOB, f"{no}; there is {ids}", f"name it so, or say -n {namespaces[0]}")
    here = {name: _id(each, name) for each in known if each.namespace == wanted.namespace for name in _names(each)}
    near = nearest(wanted.name, here)
    hint = f"; did you mean {here[near]}?" if near else ""
    return ApiError(Code.NO_SUCH_JOB, f"{no}{hint}", _USUAL)


def _names(job: Found) -> tuple[str, ...]:
    """All that it may be called, without its namespace."""
    return tuple(filter(None, (job.called, job.array, job.name)))


def _id(job: Found, name: str) -> str:
    """What certainly means it: the job's id; its array's unless one of the array was named."""
    return f"{job.namespace}/{job.array}" if job.array and name != job.name else job.id
