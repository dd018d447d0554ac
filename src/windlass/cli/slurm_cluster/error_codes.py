"""Errors of Slurm as errors of the API, with its codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.server.errors import ApiError, ErrorCode

_CODES = {
    SlurmFailure.UNREACHABLE: ErrorCode.NO_DAEMON,
    SlurmFailure.REFUSED: ErrorCode.REFUSED,
    SlurmFailure.NOT_ALLOWED: ErrorCode.NOT_ALLOWED,
    SlurmFailure.NO_SUCH_JOB: ErrorCode.NO_SUCH_JOB,
    SlurmFailure.FAILED: ErrorCode.WRONG_STATE,
}


@contextmanager
def api_errors() -> Iterator[None]:
    """Raises errors of Slurm as ApiError."""
    try:
        yield
    except SlurmError as error:
        raise ApiError(_CODES[error.kind], error.message, error.fix) from None
