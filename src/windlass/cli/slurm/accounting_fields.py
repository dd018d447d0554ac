"""Fields of sacct: by name, with a width of the column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType

from windlass.cli.errors import UsageError
from windlass.cli.slurm.field_values import job_state, node_list, run_time, slurm_duration, slurm_time
from windlass.cli.slurm.format_text import Row
from windlass.jobs.syntax.durations import clock_parts

DEFAULT_FIELDS = "JobID,JobName,Partition,User,AllocCPUS,State,ExitCode"


def exit_code(row: Row) -> str:
    """Exit code and signal: "1:0", "0:9"."""
    code = row["exit_code"] or 0
    return f"0:{code - 128}" if code > 128 else f"{code}:0"


def elapsed_time(row: Row) -> str:
    """Elapsed time with hours: "00:01:04"."""
    days, hours, minutes, seconds = clock_parts(max(0, run_time(row)) // 1000)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}"
    return f"{days}-{clock}" if days else clock


FIELDS: MappingProxyType[str, tuple[str, int, Callable[[Row], str]]] = MappingProxyType(
    {
        name.lower(): (name, width, value)
        for name, width, value in (
            ("JobID", 12, lambda row: str(row["id"])),
            ("JobName", 10, lambda row: str(row["name"])),
            ("Partition", 10, lambda row: str(row["queue"])),
            ("Account", 10, lambda row: str(row["queue"])),
            ("User", 9, lambda row: str(row["user"])),
            ("AllocCPUS", 10, lambda row: str(-(-row["request"].get("cpu", 0) // 1000))),
            ("AllocNodes", 10, lambda row: str(len(row["nodes"]) or row["replicas"])),
            ("NNodes", 8, lambda row: str(len(row["nodes"]) or row["replicas"])),
            ("NTasks", 8, lambda row: str(row["ranks"])),
            ("NodeList", 15, lambda row: node_list(row["nodes"]) or "None assigned"),
            ("State", 10, job_state),
            ("ExitCode", 8, exit_code),
            ("Elapsed", 10, elapsed_time),
            ("Submit", 19, lambda row: slurm_time(row["created_at"])),
            ("Start", 19, lambda row: slurm_time(row["started_at"])),
            ("End", 19, lambda row: slurm_time(row["finished_at"])),
            ("Timelimit", 10, lambda row: slurm_duration(row["walltime"], "UNLIMITED")),
            ("Restarts", 8, lambda row: str(max(0, row["attempts"] - 1))),
            ("Priority", 10, lambda row: str(row["priority"])),
        )
    }
)
"""Name in small letters → title, width, value."""


def accounting_lines(names: str, rows: Iterable[Row], *, header: bool, parsable: bool) -> Iterator[str]:
    """Lines of a table; `parsable`: values joined by "|". Raises UsageError for an unknown field."""
    columns = [_column(name) for name in names.split(",")]
    if header and parsable:
        yield "|".join(title for title, _, _ in columns)
    elif header:
        yield " ".join(title[:width].rjust(width) for title, width, _ in columns)
        yield " ".join("-" * width for _, width, _ in columns)
    for row in rows:
        if parsable:
            yield "|".join(value(row) for _, _, value in columns)
        else:
            yield " ".join(value(row)[:width].rjust(width) for _, width, value in columns)


def _column(word: str) -> tuple[str, int, Callable[[Row], str]]:
    """A column of "JobID" or "JobID%20"."""
    name, _, width = word.strip().partition("%")
    if name.lower() not in FIELDS:
        from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415 - needed only after an error

        hint = did_you_mean(name.lower(), FIELDS)
        known = ", ".join(title for title, _, _ in FIELDS.values())
        raise UsageError(f"--format: there is no field {name[:40]!r}{hint}\nfields are {known}")
    title, default, value = FIELDS[name.lower()]
    return title, int(width) if width.isdecimal() else default, value
