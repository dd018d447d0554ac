"""The fix of a refused job in options of Slurm, which has no job without CPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from windlass.server.errors import ApiError, ErrorCode

_FIX = (
    "lower -N, -n or -c; for processes that share the cores, make a job file by windlass import, "
    "and write cpus: 0 into it"
)


@contextlib.contextmanager
def refusals_of_slurm() -> Iterator[None]:
    """Replaces a fix that names options of other verbs, in refusals that the body raises."""
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.REFUSED or "--cpus" not in error.fix:
            raise
        raise ApiError(error.code, error.message, _FIX) from None
