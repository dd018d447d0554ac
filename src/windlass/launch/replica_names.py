"""Names of the replicas of a training operator's job, which are those of their pods and services."""

from __future__ import annotations


def replica_name(job: str, role: str, index: int) -> str:
    """`<job>-<role in lower case>-<index>`. Source: training-operator v1.9, pkg/core/utils.go, GenGeneralName."""
    return f"{job}-{role.lower()}-{index}".replace("/", "-")
