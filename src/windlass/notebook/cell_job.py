"""A cell as a job: submits it, prints the output of its ranks while it runs, and returns the value of rank 0."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.cli.target import resolve_context
from windlass.client.client import Job
from windlass.client.errors import InvalidRequestError
from windlass.client.function_call import CALL, RESULT_KEY, FunctionCall, encode_call
from windlass.client.plain_values import PlainValueError
from windlass.client.shared_client import shared_client
from windlass.notebook.cell_inputs import CellInputs, read_inputs
from windlass.notebook.cell_options import CellOptions
from windlass.notebook.rank_cell import run_cell

_PROGRAM = ("-m", "windlass.client.rank_call")
_POLL_S = 0.1
_PENDING = ("Created", "Queued")
_NOTICE_S = 1.0
"""A shorter wait in the queue is not reported."""


def run_on_ranks(options: CellOptions, source: str, namespace: Mapping[str, Any]) -> object:
    """Runs a cell on every rank of a job and returns the value of its last line on rank 0.

    An interrupt cancels the job and raises KeyboardInterrupt. Raises WindlassError and UsageError.
    """
    inputs = read_inputs(source, namespace)
    target = options.target or os.environ.get("WINDLASS_ON", "")
    in_cluster = resolve_context(target, options.namespace) is not None
    job = shared_client(target, options.namespace).submit(_fields(options, source, inputs, in_cluster=in_cluster))
    try:
        _await_nodes(job)
        for line in job.logs(follow=True):
            print(f"[r{line.rank}] {line.text}", file=sys.stderr if line.stream == "err" else sys.stdout, flush=True)
        return job.result()
    except KeyboardInterrupt:
        job.cancel()
        print(f"{job.id} is being cancelled", flush=True)
        raise


def _fields(options: CellOptions, source: str, inputs: CellInputs, *, in_cluster: bool) -> dict[str, Any]:
    """Returns the fields of the cell's job. Raises InvalidRequestError for a cell that is too large."""
    call = FunctionCall(run_cell.__name__, run_cell.__module__, args=[source, inputs.variables, inputs.imports])
    try:
        description = encode_call(call)
    except PlainValueError as error:
        fix = "save large values to a file, and read it in the cell"
        raise InvalidRequestError(f"the cell cannot be sent: {error}", fix) from None
    env = {**options.fields.get("env", {}), CALL: description, RESULT_KEY: secrets.token_hex(16)}
    command = ["python" if in_cluster else sys.executable, *_PROGRAM]
    return {"workdir": str(Path.cwd()), **options.fields, "env": env, "command": command}


def _await_nodes(job: Job[Any]) -> None:
    """Waits until the job leaves its queue; prints each new reason why it waits."""
    began, printed = time.monotonic(), ""
    while (info := job.info()).phase in _PENDING:
        reason = str(job.why())
        if time.monotonic() - began > _NOTICE_S and reason != printed:
            printed = reason
            print(reason, flush=True)
        time.sleep(_POLL_S)
    if info.phase == "Running":
        print(f"{info.id} runs on {', '.join(dict.fromkeys(info.nodes))}", flush=True)
