"""Conditions of dependencies by their names in Slurm."""

from __future__ import annotations

from types import MappingProxyType

from windlass.core.model.job import Condition

DEPENDENCY_KINDS = MappingProxyType(
    {
        Condition.SUCCEEDED: "afterok",
        Condition.FINISHED: "afterany",
        Condition.FAILED: "afternotok",
        Condition.STARTED: "after",
        Condition.MATCHING: "aftercorr",
        Condition.EARLIER: "singleton",
    }
)
