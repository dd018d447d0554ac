"""Import of numpy for a core that only adds and compares integers."""

from __future__ import annotations

import os

_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Imports numpy without the threads of its linear algebra, which take half of the import's time."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401, ICN001, PLC0415 - for the effect
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before
