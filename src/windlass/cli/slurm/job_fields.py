"""Fields of squeue."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from windlass.cli.slurm.field_values import (
    LETTERS,
    NONE,
    job_state,
    node_list,
    run_time,
    slurm_duration,
    slurm_memory,
    slurm_time,
)
from windlass.cli.slurm.format_text import Row, SlurmField

DEFAULT_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"


def _nodes_or_reason(row: Row) -> str:
    return node_list(row["nodes"]) if row["nodes"] else f"({row['reason']})"


def _time_left(row: Row) -> str:
    if row["walltime"] is None:
        return "UNLIMITED"
    return slurm_duration(row["walltime"] - run_time(row))


def _gpus(row: Row) -> str:
    gpus = row["request"].get("gpu", 0)
    return f"gres/gpu:{gpus // max(1, row['replicas'])}" if gpus else NONE


def _start(row: Row) -> str:
    return slurm_time(row["started_at"] or row["eta"])


def _end(row: Row) -> str:
    limit = row["walltime"]
    return slurm_time(row["finished_at"] or (row["running_since"] + limit if row["running_since"] and limit else None))


FIELDS = MappingProxyType(
    {
        "i": SlurmField("JOBID", lambda row: str(row["id"])),
        "A": SlurmField("JOBID", lambda row: str(row["number"])),
        "F": SlurmField("ARRAY_JOB_ID", lambda row: str(row["array"] or row["id"])),
        "K": SlurmField("ARRAY_TASK_ID", lambda row: NONE if row["index"] is None else str(row["index"])),
        "P": SlurmField("PARTITION", lambda row: str(row["queue"])),
        "j": SlurmField("NAME", lambda row: str(row["name"])),
        "u": SlurmField("USER", lambda row: str(row["user"])),
        "t": SlurmField("ST", lambda row: LETTERS[job_state(row)]),
        "T": SlurmField("STATE", job_state),
        "M": SlurmField("TIME", lambda row: slurm_duration(run_time(row))),
        "l": SlurmField("TIME_LIMIT", lambda row: slurm_duration(row["walltime"], "UNLIMITED")),
        "L": SlurmField("TIME_LEFT", _time_left),
        "D": SlurmField("NODES", lambda row: str(len(row["nodes"]) or row["replicas"])),
        "R": SlurmField("NODELIST(REASON)", _nodes_or_reason),
        "r": SlurmField("REASON", lambda row: str(row["reason"])),
        "N": SlurmField("NODELIST", lambda row: node_list(row["nodes"])),
        "C": SlurmField("CPUS", lambda row: str(-(-row["request"].get("cpu", 0) // 1000))),
        "m": SlurmField("MIN_MEMORY", lambda row: slurm_memory(row["request"].get("memory", 0) // row["replicas"])),
        "b": SlurmField("TRES_PER_NODE", _gpus),
        "p": SlurmField("PRIORITY", lambda row: str(row["priority"])),
        "Q": SlurmField("PRIORITY", lambda row: str(row["priority"])),
        "y": SlurmField("NICE", lambda row: str(-row["priority"])),
        "V": SlurmField("SUBMIT_TIME", lambda row: slurm_time(row["created_at"])),
        "S": SlurmField("START_TIME", _start),
        "e": SlurmField("END_TIME", _end),
    }
)
"""Letter → field."""


def job_json(row: Row) -> dict[str, Any]:
    """A job as an entry of `squeue --json`: names of Slurm's REST API, times in seconds."""
    times = {
        "submit_time": row["created_at"],
        "start_time": row["started_at"] or row["eta"],
        "end_time": row["finished_at"],
    }
    return {
        "job_id": row["id"],
        "name": row["name"],
        "user_name": row["user"],
        "partition": row["queue"],
        "job_state": job_state(row),
        "state_reason": row["reason"],
        "priority": row["priority"],
        "node_count": len(row["nodes"]) or row["replicas"],
        "nodes": node_list(row["nodes"]),
        "tasks": row["ranks"],
        "time_limit": row["walltime"] and row["walltime"] // 60_000,
        "restart_cnt": max(0, row["attempts"] - 1),
        **{name: (at or 0) // 1000 for name, at in times.items()},
    }
