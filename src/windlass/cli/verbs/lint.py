"""`windlass lint`: checks manifests, batch scripts and Windlass's own files before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.escaped_stream import unescaped

if TYPE_CHECKING:
    from windlass.diagnose.lint.findings import LintFinding


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
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Write the replacements that are safe into the files; of - to standard output."),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
) -> int:
    """Check manifests, sbatch scripts and job files. Exits with 1 after an error, with 0 after warnings alone.

    `# windlass: ignore[rule]` on a line or above it ignores a rule there, ignore-file[rule] in the whole file.
    """
    from windlass.diagnose.lint.engine import lint_paths  # noqa: PLC0415 - loads all rules
    from windlass.jobs.syntax.text import STDIN  # noqa: PLC0415

    if fix and STDIN in paths:
        return _filter(paths, output, strict=strict)
    if fix:
        from windlass.diagnose.lint.replacement import fix_paths  # noqa: PLC0415

        _print_count(fix_paths(paths))
    return _report(lint_paths(paths), output, sys.stdout, strict=strict)


def _filter(paths: Sequence[str], output: _Form, *, strict: bool) -> int:
    """Writes the mended standard input to standard output, and the findings that are left to standard error."""
    from windlass.diagnose.lint.engine import MAX_BYTES  # noqa: PLC0415 - loads all rules
    from windlass.diagnose.lint.replacement import fix_stream  # noqa: PLC0415
    from windlass.jobs.syntax.text import STDIN, read_bytes  # noqa: PLC0415

    if list(paths) != [STDIN]:
        raise UsageError("--fix of standard input takes no files beside -; mend the files by another call")
    data, count, findings = fix_stream(read_bytes(STDIN, MAX_BYTES), "<stdin>")
    if sys.stdout.isatty():
        print(data.decode(errors="replace"), end="")
    else:
        unescaped(sys.stdout).buffer.write(data)
    _print_count(count)
    return _report(findings, output, sys.stderr, strict=strict)


def _print_count(count: int) -> None:
    print(f"fixed {count} fault{'s' * (count != 1)}", file=sys.stderr)


def _report(findings: Sequence[LintFinding], output: _Form, stream: TextIO, *, strict: bool) -> int:
    """Prints the findings. Returns the exit code."""
    from windlass.diagnose.lint.engine import worst  # noqa: PLC0415 - loads all rules
    from windlass.diagnose.lint.findings import RuleSeverity  # noqa: PLC0415
    from windlass.diagnose.lint.reports import FORMATS  # noqa: PLC0415

    if text := FORMATS[output](findings):
        print(text, file=stream)
    stopping = (RuleSeverity.ERROR, RuleSeverity.WARNING) if strict else (RuleSeverity.ERROR,)
    return ExitCode.FAILED if worst(findings) in stopping else ExitCode.OK
