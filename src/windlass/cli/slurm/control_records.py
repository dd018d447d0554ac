"""Records of `scontrol show`: jobs, nodes and partitions as lines of Key=Value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from windlass.cli.slurm import job_fields
from windlass.cli.slurm.accounting_fields import elapsed_time, exit_code, tres
from windlass.cli.slurm.field_values import (
    NULL,
    RUN_TIME,
    STATE,
    job_state,
    node_list,
    slurm_duration,
    slurm_time,
)
from windlass.cli.slurm.format_text import Row
from windlass.cli.slurm.node_fields import node_state
from windlass.cli.slurm.partitions import DEFAULT
from windlass.cli.slurm.reason_codes import REASON, reason_code
from windlass.core.model.resources import CPU, GPU, MEMORY

Record: TypeAlias = Sequence[Sequence[tuple[str, str]]]
"""Lines of keys and values."""
JOB_FIELDS = (
    *("id", "number", "array", "index", "name", "user", "queue", "priority", "replicas", "ranks", "request", "nodes"),
    *("attempts", "created_at", "queued_at", "started_at", "walltime", "exit_code", "eta", "begin", "after", "avoid"),
    *("labels", "command", "workdir", "whole_node", *STATE, *RUN_TIME, *REASON),
)
"""Fields of a row that `job_record` needs."""


def record_text(record: Record, *, one_line: bool) -> str:
    """A record as scontrol prints it: lines with an indent and an empty line after them, or one line."""
    lines = [" ".join(f"{key}={value}" for key, value in line) for line in record]
    return " ".join(lines) if one_line else "\n   ".join(lines) + "\n"


def job_record(row: Row) -> Record:
    """A job."""
    of_array = [("ArrayJobId", row["array"]), ("ArrayTaskId", str(row["index"]))] if row["array"] else []
    return [
        [("JobId", row["id"]), *of_array, ("JobName", row["name"])],
        [("UserId", f"{row['user']}({job_fields.user_number(row['user'])})"), ("MCS_label", "N/A")],
        [("Priority", str(row["priority"])), ("Nice", str(-row["priority"])), *_of_account(row)],
        [("JobState", job_state(row)), ("Reason", reason_code(row)), _dependency(row)],
        [("Requeue", "1"), ("Restarts", str(max(0, row["attempts"] - 1))), ("ExitCode", exit_code(row))],
        [("RunTime", elapsed_time(row)), ("TimeLimit", slurm_duration(row["walltime"], "UNLIMITED"))],
        [("SubmitTime", slurm_time(row["created_at"])), ("EligibleTime", job_fields.eligible_time(row))],
        [("StartTime", job_fields.start_of(row)), ("EndTime", job_fields.end_of(row)), ("Deadline", "N/A")],
        [("Partition", row["queue"]), ("ExcNodeList", node_list(row.get("avoid", ())) or NULL)],
        [("NodeList", node_list(row["nodes"]) or NULL), ("BatchHost", row["nodes"][0] if row["nodes"] else NULL)],
        [("NumNodes", job_fields.nodes_number(row)), ("NumCPUs", job_fields.cpus_of(row)), _tasks(row)],
        [("TRES", _tres(row["request"], row["replicas"]))],
        [("OverSubscribe", "NO" if row.get("whole_node") else "OK"), ("TresPerNode", job_fields.gpus_of(row))],
        [("Command", job_fields.command_of(row))],
        [("WorkDir", row.get("workdir") or NULL)],
    ]


def _of_account(row: Row) -> Iterator[tuple[str, str]]:
    yield "Account", job_fields.label_of("account", NULL)(row)
    yield "QOS", job_fields.label_of("qos", "normal")(row)


def _dependency(row: Row) -> tuple[str, str]:
    return "Dependency", job_fields.dependencies_of(row)


def _tasks(row: Row) -> tuple[str, str]:
    return "NumTasks", str(row["ranks"])


def _tres(amounts: Row, nodes: int = 0) -> str:
    return tres(amounts, nodes) or NULL


def node_record(node: Row) -> Record:
    """A node with the `partitions` that have it."""
    capacity, used = node["capacity"], node["used"]
    return [
        [("NodeName", node["name"]), ("CPUAlloc", str(used.get(CPU, 0) // 1000)), ("CPUTot", _cpus(capacity))],
        [("Gres", f"gpu:{capacity[GPU]}" if capacity.get(GPU) else NULL), ("GresUsed", f"gpu:{used.get(GPU, 0)}")],
        [("NodeAddr", node["name"]), ("NodeHostName", node["name"])],
        [("RealMemory", _mebibytes(capacity)), ("AllocMem", _mebibytes(used))],
        [("State", node_state(node).upper()), ("Partitions", ",".join(node["partitions"]))],
        [("CfgTRES", _tres(capacity)), ("AllocTRES", _tres(used))],
        [("Reason", node["cordoned"] or NULL), ("Jobs", ",".join(job["id"] for job in node["jobs"]) or NULL)],
    ]


def _cpus(capacity: Row) -> str:
    return str(capacity.get(CPU, 0) // 1000)


def _mebibytes(amounts: Row) -> str:
    return str(amounts.get(MEMORY, 0) >> 20)


def partition_record(queue: Row) -> Record:
    """A queue, which jobs name as their partition: its quota and what its jobs hold."""
    return [
        [("PartitionName", queue["name"])],
        [("AllowGroups", "ALL"), ("AllowAccounts", "ALL"), ("Default", "YES" if queue["name"] == DEFAULT else "NO")],
        [("MaxTime", "UNLIMITED"), ("State", "UP")],
        [("JobsPending", str(queue["waiting"])), ("JobsRunning", str(queue["running"]))],
        [("TRES", _tres(queue["quota"])), ("AllocTRES", _tres(queue["used"]))],
    ]
