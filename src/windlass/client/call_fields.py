"""Fields of the job that carries out a call of a function, and the launcher of its ranks."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass.cli.job_submission import with_launcher
from windlass.client.errors import InvalidRequestError
from windlass.client.function_call import CALL, RESULT_KEY, FunctionCall, encode_call
from windlass.client.function_source import FunctionSource, source_of
from windlass.client.job_function import BoundCall
from windlass.client.plain_values import PlainValueError
from windlass.jobs.description.submission import Submission

_PROGRAM = ("-m", "windlass.client.rank_call")
_NO_CODE = "no"


@dataclass(frozen=True, slots=True)
class CallFields:
    """The fields of a call's job. `ship`: the folder of its code on a cluster, or "no"."""

    fields: Mapping[str, Any]
    source: FunctionSource

    @property
    def ship(self) -> str:
        """Folder that a cluster needs, or "no"."""
        return self.source.folder if self.source.is_shipped else _NO_CODE


def fields_of_call(call: BoundCall[Any], given: Mapping[str, Any], *, in_cluster: bool) -> CallFields:
    """Returns the fields of a call's job; those given now win over those of the decorator.

    Raises InvalidRequestError.
    """
    function = call.function
    if taken := {"command", "roles"} & {*function.fields, *given}:
        fix = "remove it: every rank runs the function"
        raise InvalidRequestError(f"the job of a function takes no {' and '.join(sorted(taken))}", fix)
    source = source_of(function.function)
    merged = {"name": _job_name(function.function.__name__), **function.fields, **given}
    own = {CALL: _description(call, source), RESULT_KEY: secrets.token_hex(16)}
    env = {**function.fields.get("env", {}), **given.get("env", {}), **own}
    command = ["python" if in_cluster else sys.executable, *_PROGRAM]
    has_folder = source.folder and (source.is_shipped or not in_cluster)
    workdir = {"workdir": source.folder} if has_folder else {}
    return CallFields({**merged, **workdir, "env": env, "command": command}, source)


def with_launcher_of_function(submission: Submission, source: FunctionSource) -> Submission:
    """Returns the job with the launcher that a script with the function's imports has on this machine."""
    if submission.is_launcher_explicit or not source.script:
        return submission
    job = submission.job
    script = tuple(replace(role, command=(role.command[0], source.script)) for role in job.roles)
    as_script = with_launcher(replace(submission, job=replace(job, roles=script)))
    chosen = replace(job, launcher=as_script.job.launcher)
    return replace(submission, job=chosen, is_launcher_explicit=True)


def _description(call: BoundCall[Any], source: FunctionSource) -> str:
    name = call.function.function.__qualname__
    described = FunctionCall(name, source.module, source.file, source.text, call.args, call.kwargs)
    try:
        return encode_call(described)
    except PlainValueError as error:
        fix = "pass numbers, texts, lists and dicts; save anything else to a file and pass its path"
        raise InvalidRequestError(f"the arguments of {name} cannot be sent: {error}", fix) from None


def _job_name(function: str) -> str:
    """Returns the name of a job after a function, without characters that a job's name cannot have."""
    return function.strip("_").replace("_", "-").lower() or "function"
