"""Fields of squeue: by letter for --format, by name for --Format."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Iterable
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from windlass.cli.slurm.field_values import (
    LETTERS,
    NONE,
    NULL,
    RUN_TIME,
    STATE,
    job_state,
    node_list,
    run_time,
    slurm_duration,
    slurm_memory,
    slurm_time,
)
from windlass.cli.slurm.format_text import Row, SlurmField
from windlass.cli.slurm.reason_codes import REASON, reason_code
from windlass.jobs.slurm.dependency_kinds import DEPENDENCY_KINDS
from windlass.jobs.slurm.shell_environment import script_of

DEFAULT_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"


def _nodes_or_reason(row: Row) -> str:
    return node_list(row["nodes"]) if row["nodes"] else f"({reason_code(row)})"


def _time_left(row: Row) -> str:
    if row["walltime"] is None:
        return "UNLIMITED"
    return slurm_duration(row["walltime"] - run_time(row))


def per_node(row: Row, resource: str) -> int:
    """Amount of a resource that each replica of a job requests."""
    return int(row["request"].get(resource, 0)) // max(1, int(row["replicas"]))


def gpus_of(row: Row) -> str:
    """The GPUs that each replica requests."""
    gpus = per_node(row, "gpu")
    return f"gres/gpu:{gpus}" if gpus else NONE


def start_of(row: Row) -> str:
    """When a job started, is expected to start, or may start at the earliest."""
    return slurm_time(row["started_at"] or row["eta"] or row.get("begin"))


def eligible_time(row: Row) -> str:
    """The time from which a job may start: it waits in the queue, and its begin time has come."""
    return slurm_time(max(row["queued_at"] or 0, row.get("begin") or 0))


def end_of(row: Row) -> str:
    """When a job ended, or reaches its time limit."""
    limit = row["walltime"]
    return slurm_time(row["finished_at"] or (row["running_since"] + limit if row["running_since"] and limit else None))


def nodes_number(row: Row) -> str:
    """Nodes that a job holds, or requests."""
    return str(len(row["nodes"]) or row["replicas"])


def cpus_of(row: Row) -> str:
    """Whole CPUs of all replicas."""
    return str(-(-row["request"].get("cpu", 0) // 1000))


def dependencies_of(row: Row) -> str:
    """The jobs that a job waits for: "afterok:train-1"."""
    named = [each.partition(":") for each in row.get("after", ())]
    kinds = {condition.value: kind for condition, kind in DEPENDENCY_KINDS.items()}
    texts = [kinds[condition] if condition == "earlier" else f"{kinds[condition]}:{job}" for condition, _, job in named]
    return ",".join(dict.fromkeys(texts)) or NULL


def command_of(row: Row) -> str:
    """The script of a job that sbatch submitted, or its command in one line."""
    return script_of(str(row.get("command") or NULL)).replace("\n", r"\n")


def label_of(name: str, default: str) -> Callable[[Row], str]:
    """The value of a label that an imported script gets, such as its account."""
    return lambda row: str(row.get("labels", {}).get(f"slurm-{name}", default))


@cache
def user_number(name: str) -> str:
    """The number of a user on this machine."""
    try:
        return str(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return NONE


@cache
def _group(name: str) -> tuple[str, str]:
    """Name and number of a user's group on this machine."""
    try:
        number = pwd.getpwnam(name).pw_gid
        return grp.getgrgid(number).gr_name, str(number)
    except KeyError:
        return NONE, NONE


def _text(name: str) -> Callable[[Row], str]:
    return lambda row: str(row.get(name, NONE))


def _always(text: str) -> Callable[[Row], str]:
    return lambda _row: text


_NODES = ("nodes", "replicas")
_REQUEST = ("request", "replicas")
FIELDS = MappingProxyType(
    {
        "a": SlurmField("ACCOUNT", label_of("account", NULL), ("labels",)),
        "A": SlurmField("JOBID", _text("number"), ("number",)),
        "B": SlurmField("EXEC_HOST", lambda row: row["nodes"][0] if row["nodes"] else "n/a", ("nodes",)),
        "c": SlurmField("MIN_CPUS", lambda row: str(-(-per_node(row, "cpu") // 1000)), _REQUEST),
        "C": SlurmField("CPUS", cpus_of, ("request",)),
        "d": SlurmField("MIN_TMP_DISK", _always("0")),
        "D": SlurmField("NODES", nodes_number, _NODES),
        "e": SlurmField("END_TIME", end_of, ("finished_at", "running_since", "walltime")),
        "E": SlurmField("DEPENDENCY", dependencies_of, ("after",)),
        "f": SlurmField("FEATURES", _always(NULL)),
        "F": SlurmField("ARRAY_JOB_ID", lambda row: str(row["array"] or row["id"]), ("array",)),
        "g": SlurmField("GROUP", lambda row: _group(row["user"])[0], ("user",)),
        "G": SlurmField("GROUP", lambda row: _group(row["user"])[1], ("user",)),
        "h": SlurmField("OVER_SUBSCRIBE", lambda row: "NO" if row.get("whole_node") else "OK", ("whole_node",)),
        "H": SlurmField("SOCKETS_PER_NODE", _always("*")),
        "i": SlurmField("JOBID", _text("id")),
        "I": SlurmField("CORES_PER_SOCKET", _always("*")),
        "j": SlurmField("NAME", _text("name"), ("name",)),
        "J": SlurmField("THREADS_PER_CORE", _always("*")),
        "k": SlurmField("COMMENT", _always(NULL)),
        "K": SlurmField("ARRAY_TASK_ID", lambda row: NONE if row["index"] is None else str(row["index"]), ("index",)),
        "l": SlurmField("TIME_LIMIT", lambda row: slurm_duration(row["walltime"], "UNLIMITED"), ("walltime",)),
        "L": SlurmField("TIME_LEFT", _time_left, ("walltime", *RUN_TIME)),
        "m": SlurmField("MIN_MEMORY", lambda row: slurm_memory(per_node(row, "memory")), _REQUEST),
        "M": SlurmField("TIME", lambda row: slurm_duration(run_time(row)), RUN_TIME),
        "n": SlurmField("REQ_NODES", _always("")),
        "N": SlurmField("NODELIST", lambda row: node_list(row["nodes"]), ("nodes",)),
        "o": SlurmField("COMMAND", command_of, ("command",)),
        "O": SlurmField("CONTIGUOUS", _always("0")),
        "p": SlurmField("PRIORITY", _text("priority"), ("priority",)),
        "P": SlurmField("PARTITION", _text("queue"), ("queue",)),
        "q": SlurmField("QOS", label_of("qos", "normal"), ("labels",)),
        "Q": SlurmField("PRIORITY", _text("priority"), ("priority",)),
        "r": SlurmField("REASON", reason_code, REASON),
        "R": SlurmField("NODELIST(REASON)", _nodes_or_reason, ("nodes", *REASON)),
        "s": SlurmField("SELECT_JOBINFO", _always(NONE)),
        "S": SlurmField("START_TIME", start_of, ("started_at", "eta", "begin")),
        "t": SlurmField("ST", lambda row: LETTERS[job_state(row)], STATE),
        "T": SlurmField("STATE", job_state, STATE),
        "u": SlurmField("USER", _text("user"), ("user",)),
        "U": SlurmField("UID", lambda row: user_number(row["user"]), ("user",)),
        "v": SlurmField("RESERVATION", _always(NULL)),
        "V": SlurmField("SUBMIT_TIME", lambda row: slurm_time(row["created_at"]), ("created_at",)),
        "w": SlurmField("WCKEY", _always(NULL)),
        "W": SlurmField("LICENSES", _always(NULL)),
        "x": SlurmField("EXC_NODES", lambda row: node_list(row.get("avoid", ())), ("avoid",)),
        "X": SlurmField("CORE_SPEC", _always(NONE)),
        "y": SlurmField("NICE", lambda row: str(-row["priority"]), ("priority",)),
        "Y": SlurmField("SCHEDNODES", _always(NULL)),
        "b": SlurmField("TRES_PER_NODE", gpus_of, _REQUEST),
        "z": SlurmField("S:C:T", _always("*:*:*")),
        "Z": SlurmField("WORK_DIR", _text("workdir"), ("workdir",)),
    }
)
"""Letter → field."""
_NAMES = """
    account a arrayjobid F arraytaskid K batchhost B command o comment k contiguous O cores I corespec X dependency E
    endtime e exc_nodes x feature f groupid G groupname g jobarrayid i jobid A licenses W minmemory m mintmpdisk d
    mincpus c name j nice y nodelist N nodes N numcpus C numnodes D oversubscribe h partition P priority p
    prioritylong Q qos q reason r reasonlist R reqnodes n reservation v schednodes Y sct z selectjobinfo s sockets H
    starttime S state T statecompact t submittime V threads J timeleft L timelimit l timeused M tres-per-node b
    userid U username u wckey w workdir Z
"""
_PAIRS = _NAMES.split()
NAMED_FIELDS = MappingProxyType(
    {
        **{name: FIELDS[letter] for name, letter in zip(_PAIRS[::2], _PAIRS[1::2], strict=True)},
        "numtasks": SlurmField("TASKS", _text("ranks"), ("ranks",)),
        "restartcnt": SlurmField("RESTART_COUNT", lambda row: str(max(0, row["attempts"] - 1)), ("attempts",)),
    }
)
"""Name of --Format → field."""
_SORTED: MappingProxyType[str, tuple[Callable[[Row], Any], tuple[str, ...]]] = MappingProxyType(
    {
        "A": (lambda row: row["number"], ("number",)),
        "C": (lambda row: row["request"].get("cpu", 0), ("request",)),
        "D": (lambda row: len(row["nodes"]) or row["replicas"], _NODES),
        "i": (lambda row: (row["number"], row["index"] or 0), ("number", "index")),
        "l": (lambda row: row["walltime"] or float("inf"), ("walltime",)),
        "L": (lambda row: (row["walltime"] or float("inf")) - run_time(row), ("walltime", *RUN_TIME)),
        "m": (lambda row: per_node(row, "memory"), _REQUEST),
        "M": (run_time, RUN_TIME),
        "p": (lambda row: row["priority"], ("priority",)),
        "Q": (lambda row: row["priority"], ("priority",)),
        "y": (lambda row: -row["priority"], ("priority",)),
    }
)
"""Letter → what --sort compares, where that is not the text; and the fields of the row that it needs."""


SortKey: TypeAlias = tuple[Callable[[Row], Any], tuple[str, ...], bool]
"""Value that a key compares, the fields of the row that it needs, and whether it descends."""


def sort_keys(text: str) -> list[SortKey]:
    """Keys of --sort, such as "P,-p". Raises ValueError for a letter that is no field."""
    keys = []
    for word in text.split(","):
        letter = word.strip().lstrip("+-").removeprefix("%")
        if letter not in FIELDS:
            raise ValueError(letter)
        of_text = FIELDS[letter].value, FIELDS[letter].needs
        keys.append((*_SORTED.get(letter, of_text), word.strip().startswith("-")))
    return keys


JSON_FIELDS = (
    *("name", "user", "queue", "priority", "nodes", "replicas", "ranks", "walltime", "attempts"),
    *("created_at", "started_at", "eta", "begin", "finished_at", *REASON),
)
"""Fields of a row that `job_json` needs."""


def needed_fields(fields: Iterable[SlurmField]) -> set[str]:
    """Fields of a row that these fields are made of, and those that say which job it is."""
    return {"id", "number", "array", *(name for field in fields for name in field.needs)}


def job_json(row: Row) -> dict[str, Any]:
    """A job as an entry of `squeue --json`: names of Slurm's REST API, times in seconds."""
    times = {
        "submit_time": row["created_at"],
        "start_time": row["started_at"] or row["eta"] or row.get("begin"),
        "end_time": row["finished_at"],
    }
    return {
        "job_id": row["id"],
        "name": row["name"],
        "user_name": row["user"],
        "partition": row["queue"],
        "job_state": job_state(row),
        "state_reason": reason_code(row),
        "priority": row["priority"],
        "node_count": len(row["nodes"]) or row["replicas"],
        "nodes": node_list(row["nodes"]),
        "tasks": row["ranks"],
        "time_limit": row["walltime"] and row["walltime"] // 60_000,
        "restart_cnt": max(0, row["attempts"] - 1),
        **{name: (at or 0) // 1000 for name, at in times.items()},
    }
