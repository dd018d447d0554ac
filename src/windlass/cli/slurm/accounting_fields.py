"""Fields of sacct: by name, with a width of the column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from windlass.cli.errors import UsageError
from windlass.cli.slurm.field_values import RUN_TIME, STATE, job_state, node_list, run_time, slurm_memory, slurm_time
from windlass.cli.slurm.format_text import Row
from windlass.cli.slurm.job_fields import eligible_time, label_of, nodes_number, user_number
from windlass.cli.slurm.reason_codes import REASON, reason_code
from windlass.core.model.resources import CPU, GPU, MEMORY
from windlass.jobs.syntax.durations import clock_parts

BRIEF_FIELDS = "JobID,State,ExitCode"
DEFAULT_FIELDS = "JobID,JobName,Partition,User,AllocCPUS,State,ExitCode"


@dataclass(frozen=True, slots=True)
class AccountingField:
    """A column of sacct: title, width, value of a row, and the fields of the row that the value is made of."""

    title: str
    width: int
    value: Callable[[Row], str]
    needs: tuple[str, ...] = ()


def exit_code(row: Row) -> str:
    """Exit code and signal: "1:0", "0:9"."""
    code = row["exit_code"] or 0
    return f"0:{code - 128}" if code > 128 else f"{code}:0"


def elapsed_time(row: Row) -> str:
    """Elapsed time with hours: "00:01:04"."""
    return _clock_text(_clock(row))


def _time_limit(row: Row) -> str:
    return "UNLIMITED" if row["walltime"] is None else _clock_text(row["walltime"] // 1000)


def _memory(row: Row) -> str:
    return slurm_memory(row["request"].get(MEMORY, 0))


_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50}


def _in_unit(unit: str, row: Row) -> str:
    """Requested memory in a unit: "6.50G", without decimals if it is whole."""
    amount = row["request"].get(MEMORY, 0) / 2 ** _UNITS[unit]
    return f"{amount:.0f}{unit}" if amount == int(amount) else f"{amount:.2f}{unit}"


def tres(amounts: Row, nodes: int = 0) -> str:
    """Trackable resources: "cpu=8,mem=16G,node=2,gres/gpu=4"; "" without any."""
    found = {
        "cpu": -(-amounts.get(CPU, 0) // 1000),
        "mem": slurm_memory(amounts[MEMORY]) if amounts.get(MEMORY) else 0,
        "node": nodes,
        "gres/gpu": amounts.get(GPU, 0),
    }
    return ",".join(f"{name}={amount}" for name, amount in found.items() if amount)


def _clock(row: Row) -> int:
    """Elapsed time in whole seconds."""
    return max(0, run_time(row)) // 1000


def _cpus(row: Row) -> int:
    return -int(-row["request"].get(CPU, 0) // 1000)


def _clock_text(seconds: int) -> str:
    days, hours, minutes, seconds = clock_parts(seconds)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}"
    return f"{days}-{clock}" if days else clock


def _nodes_of(row: Row) -> str:
    """The nodes that a job holds, or held in its last attempt."""
    return node_list(row["nodes"] or row.get("last_nodes") or []) or "None assigned"


def _planned(row: Row) -> str:
    """Time in the queue until the first start."""
    return _clock_text(max(0, row["started_at"] - row["created_at"]) // 1000) if row["started_at"] else "00:00:00"


_REQUEST = ("request", "replicas")
_NODES = ("nodes", "replicas")
_UNMEASURED = ("AveCPU", "AveRSS", "AveVMSize", "MaxRSS", "MaxVMSize")
"""Fields of steps, which are empty in the lines of jobs."""
FIELDS: MappingProxyType[str, AccountingField] = MappingProxyType(
    {
        field.title.lower(): field
        for field in (
            AccountingField("JobID", 12, lambda row: str(row["id"])),
            AccountingField("JobIDRaw", 12, lambda row: str(row["number"])),
            AccountingField("JobName", 10, lambda row: str(row["name"]), ("name",)),
            AccountingField("Partition", 10, lambda row: str(row["queue"]), ("queue",)),
            AccountingField("Account", 10, label_of("account", ""), ("labels",)),
            AccountingField("QOS", 10, label_of("qos", "normal"), ("labels",)),
            AccountingField("User", 9, lambda row: str(row["user"]), ("user",)),
            AccountingField("UID", 6, lambda row: user_number(row["user"]), ("user",)),
            AccountingField("AllocCPUS", 10, lambda row: str(_cpus(row)), ("request",)),
            AccountingField("ReqCPUS", 8, lambda row: str(_cpus(row)), ("request",)),
            AccountingField("NCPUS", 10, lambda row: str(_cpus(row)), ("request",)),
            AccountingField("AllocNodes", 10, nodes_number, _NODES),
            AccountingField("NNodes", 8, nodes_number, _NODES),
            AccountingField("NTasks", 8, lambda row: str(row["ranks"]), ("ranks",)),
            AccountingField("NodeList", 15, _nodes_of, ("nodes",)),
            AccountingField("State", 10, job_state, STATE),
            AccountingField("Reason", 22, reason_code, REASON),
            AccountingField("ExitCode", 8, exit_code, ("exit_code",)),
            AccountingField("DerivedExitCode", 15, exit_code, ("exit_code",)),
            AccountingField("Elapsed", 10, elapsed_time, RUN_TIME),
            AccountingField("ElapsedRaw", 10, lambda row: str(_clock(row)), RUN_TIME),
            AccountingField("CPUTime", 10, lambda row: _clock_text(_clock(row) * _cpus(row)), ("request", *RUN_TIME)),
            AccountingField("CPUTimeRAW", 10, lambda row: str(_clock(row) * _cpus(row)), ("request", *RUN_TIME)),
            AccountingField("Planned", 10, _planned, ("started_at", "created_at")),
            AccountingField("Submit", 19, lambda row: slurm_time(row["created_at"]), ("created_at",)),
            AccountingField("Eligible", 19, eligible_time, ("queued_at", "begin")),
            AccountingField("Start", 19, lambda row: slurm_time(row["started_at"], "Unknown"), ("started_at",)),
            AccountingField("End", 19, lambda row: slurm_time(row["finished_at"], "Unknown"), ("finished_at",)),
            AccountingField("Timelimit", 10, _time_limit, ("walltime",)),
            AccountingField("TimelimitRaw", 12, lambda row: str((row["walltime"] or 0) // 60_000), ("walltime",)),
            AccountingField("ReqMem", 10, _memory, ("request",)),
            AccountingField("AllocTRES", 10, lambda row: tres(row["request"], row["replicas"]), _REQUEST),
            AccountingField("ReqTRES", 10, lambda row: tres(row["request"], row["replicas"]), _REQUEST),
            AccountingField("Restarts", 8, lambda row: str(max(0, row["attempts"] - 1)), ("attempts",)),
            AccountingField("Priority", 10, lambda row: str(row["priority"]), ("priority",)),
            AccountingField("WorkDir", 20, lambda row: str(row.get("workdir", "")), ("workdir",)),
            *(AccountingField(name, 10, lambda _row: "") for name in _UNMEASURED),
        )
    }
)
"""Name in small letters → field."""


@dataclass(frozen=True, slots=True)
class AccountingTable:
    """The table of sacct: its columns, and how they are written."""

    columns: tuple[AccountingField, ...]
    delimiter: str = ""
    """Between values of any length; "": columns with widths."""
    ends: bool = False
    """Whether a delimiter stands behind the last value, too."""

    @property
    def fields(self) -> str:
        """Fields of a job that the table needs, joined by commas."""
        needed = {name for column in self.columns for name in column.needs}
        return ",".join(sorted({"id", "number", "array", "index", "created_at", "finished_at", *STATE, *needed}))

    @property
    def has_node_list(self) -> bool:
        """Whether the table names the nodes of each job."""
        return any(column.title == "NodeList" for column in self.columns)

    def lines(self, rows: Iterable[Row], *, header: bool) -> Iterator[str]:
        """The header, and a line for each row."""
        if header:
            yield self._line([column.title for column in self.columns])
        if header and not self.delimiter:
            yield " ".join("-" * abs(column.width) for column in self.columns)
        for row in rows:
            yield self._line([column.value(row) for column in self.columns])

    def _line(self, values: Sequence[str]) -> str:
        if self.delimiter:
            return self.delimiter.join(values) + (self.delimiter if self.ends else "")
        return " ".join(_fit(value, column.width) for value, column in zip(values, self.columns, strict=True))


def _fit(value: str, width: int) -> str:
    """A value in its column, a cut one with "+" at its end; to the left if the width is negative."""
    size = abs(width)
    shown = value if len(value) <= size else f"{value[: size - 1]}+"
    return shown.ljust(size) if width < 0 else shown.rjust(size)


def read_table(names: str, units: str = "", delimiter: str = "", *, ends: bool = False) -> AccountingTable:
    """The table of --format and --units. Raises UsageError for an unknown field or unit."""
    if units and units.upper() not in _UNITS:
        raise UsageError(f"--units: there is no unit {units[:20]!r}\nunits are {', '.join(_UNITS)}")
    columns = [_column(name) for name in names.split(",")]
    if units:
        memory = replace(FIELDS["reqmem"], value=partial(_in_unit, units.upper()))
        columns = [replace(memory, width=each.width) if each.title == memory.title else each for each in columns]
    return AccountingTable(tuple(columns), delimiter, ends)


def _column(word: str) -> AccountingField:
    """A column of "JobID" or "JobID%20"; a negative width aligns to the left."""
    name, _, width = word.strip().partition("%")
    if name.lower() not in FIELDS:
        from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415 - needed only after an error

        hint = did_you_mean(name.lower(), FIELDS)
        known = ", ".join(field.title for field in FIELDS.values())
        raise UsageError(f"--format: there is no field {name[:40]!r}{hint}\nfields are {known}")
    field = FIELDS[name.lower()]
    return replace(field, width=int(width)) if re.fullmatch("-?[0-9]{1,4}", width) else field
