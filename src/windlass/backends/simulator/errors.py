"""The one error of this room that people see."""

from __future__ import annotations


class SimError(Exception):
    """A trace, a cluster or a setting that cannot be simulated. Its text names the place and the fix."""


class TraceError(SimError):
    """A trace that cannot be read: file, row where there is one, what is wrong, and what to do."""

    def __init__(self, path: str, row: int, problem: str) -> None:
        place = f"{path}, row {row}" if row else path
        super().__init__(f"{place}: {problem}")


class Flaw(Exception):  # noqa: N818 - raised by a row, told as a TraceError or only counted
    """What is wrong with one row. `cause` is what rows that were left out are counted by."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause
