"""Prints the report of a check list as text, JSON or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from windlass.cli.terminal.output import as_json
from windlass.diagnose.steps import CheckStep, markdown_lines, plain_report, text_lines


class ReportFormat(StrEnum):
    """Output format of a report."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


ReportFormatOption: TypeAlias = Annotated[ReportFormat, typer.Option("-o", "--output", help="Output format.")]


def print_report(subject: str, steps: Sequence[CheckStep], how: ReportFormat) -> None:
    """Prints the steps of a check list."""
    if how is ReportFormat.JSON:
        print(as_json(plain_report(subject, steps)))
    else:
        print("\n".join((markdown_lines if how is ReportFormat.MARKDOWN else text_lines)(subject, steps)))
