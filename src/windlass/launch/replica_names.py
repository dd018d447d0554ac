"""What a replica of a training operator's job is called: its pod and its service alike."""

from __future__ import annotations


def replica_name(job: str, role: str, index: int) -> str:
    """`<job>-<role in lower case>-<index>`. Source: training-operator v1.9, pkg/core/utils.go, GenGeneralName."""
    return f"{job}-{role.lower()}-{index}".replace("/", "-")
