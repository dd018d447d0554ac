"""The listing of squeue: its format, the fields of a job that the format needs, and the order of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.cli.errors import UsageError
from windlass.cli.slurm import job_fields
from windlass.cli.slurm.field_values import STATE
from windlass.cli.slurm.format_text import FormatPart, Row, parse_format, parse_names


@dataclass(frozen=True, slots=True)
class QueueLayout:
    """Layout of squeue: `parts` of each line, rows sorted by `order` ("": as the controller sends them)."""

    parts: Sequence[FormatPart]
    order: str = ""

    @property
    def fields(self) -> str:
        """The fields of a job that the listing needs, joined by commas."""
        needed = job_fields.needed_fields(part.field for part in self.parts if part.field)
        of_order = [name for _, names, _ in _keys(self.order) for name in names]
        return ",".join(sorted({*needed, *STATE, *of_order}))

    def sorted_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows in the order of the listing."""
        for value, _, descends in reversed(_keys(self.order)):
            rows = sorted(rows, key=value, reverse=descends)
        return rows


def read_layout(form: str, names: str, order: str, default: str) -> QueueLayout:
    """The listing of --format or --Format, and --sort. Raises UsageError."""
    if form and names:
        raise UsageError("--format and --Format exclude each other\nremove one of them")
    layout = QueueLayout(
        parse_names(names, job_fields.NAMED_FIELDS) if names else parse_format(form or default, job_fields.FIELDS),
        order,
    )
    _keys(order)
    return layout


def _keys(order: str) -> Sequence[job_fields.SortKey]:
    try:
        return job_fields.sort_keys(order) if order else ()
    except ValueError as error:
        known = " ".join(sorted(job_fields.FIELDS, key=str.lower))
        raise UsageError(f"--sort: there is no field {str(error)[:40]!r}\nfields are {known}") from None
