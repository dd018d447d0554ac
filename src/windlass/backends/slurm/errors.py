"""Errors of Slurm's commands, by kind."""

from __future__ import annotations

from enum import StrEnum

from windlass.backends.errors import BackendError


class SlurmFailure(StrEnum):
    """Kinds of failure."""

    UNREACHABLE = "unreachable"
    """No client commands, no configuration, or no answer of the controller."""
    REFUSED = "refused"
    """The job could never run there, or a limit forbids it."""
    NOT_ALLOWED = "not allowed"
    NO_SUCH_JOB = "no such job"
    FAILED = "failed"
    """Any other failure."""


class SlurmError(BackendError):
    """A command of Slurm failed. `fix` is empty if none is known."""

    def __init__(self, kind: SlurmFailure, message: str, fix: str = "") -> None:
        super().__init__(f"{message}\n{fix}" if fix else message)
        self.kind, self.message, self.fix = kind, message, fix
