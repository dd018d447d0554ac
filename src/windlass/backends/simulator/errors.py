"""The errors of the simulator that people see."""

from __future__ import annotations


class SimulationError(Exception):
    """A trace, a cluster or a setting that cannot be simulated. Its text names the place and the fix."""


class TraceError(SimulationError):
    """A trace that cannot be read. Its text names file, row, error and fix."""

    def __init__(self, path: str, row: int, problem: str) -> None:
        place = f"{path}, row {row}" if row else path
        super().__init__(f"{place}: {problem}")


class RowError(Exception):
    """The error of one row. Rows that are left out are counted by `cause`."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause
