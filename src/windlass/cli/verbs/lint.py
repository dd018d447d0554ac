"""`windlass lint`: checks manifests, batch scripts and Windlass's own files before anything starts."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from windlass.cli.exit_codes import ExitCode


class _Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def lint(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, folders, or - for standard input (Helm's output).")
    ],
    output: Annotated[_Form, typer.Option("-o", "--output", help="Output format.")] = _Form.TEXT,
    fix: Annotated[bool, typer.Option("--fix", help="Write the replacements that are safe into the files.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
) -> int:
    """Check manifests, sbatch scripts and job files. Exits with 1 after an error, with 0 after warnings alone.

    `# windlass: ignore[rule]` on a line or above it ignores a rule there, ignore-file[rule] in the whole file.
    """
    from windlass.diagnose.lint.engine import lint_paths, worst  # noqa: PLC0415 - loads all rules
    from windlass.diagnose.lint.findings import RuleSeverity  # noqa: PLC0415
    from windlass.diagnose.lint.reports import FORMATS  # noqa: PLC0415

    if fix:
        from windlass.diagnose.lint.replacement import fix_paths  # noqa: PLC0415

        count = fix_paths(paths)
        print(f"fixed {count} fault{'s' * (count != 1)}", file=sys.stderr)
    findings = lint_paths(paths)
    if text := FORMATS[output](findings):
        print(text)
    stopping = (RuleSeverity.ERROR, RuleSeverity.WARNING) if strict else (RuleSeverity.ERROR,)
    return ExitCode.FAILED if worst(findings) in stopping else ExitCode.OK
