"""`--fix`: writes the replacements of findings into their files, where the result is no worse."""

from __future__ import annotations

import codecs
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.diagnose.lint.engine import MAX_BYTES, lint_paths, lint_texts
from windlass.diagnose.lint.findings import LintFinding
from windlass.jobs.errors import input_error
from windlass.jobs.syntax.text import STDIN, Text, decode, read_bytes


def fix_paths(paths: Iterable[str]) -> int:
    """Mends the files among some paths and returns the number of mended faults. Standard input is left as it is.

    Raises InputError if a file cannot be written.
    """
    by_file = defaultdict[str, list[LintFinding]](list)
    for finding in lint_paths([path for path in paths if path != STDIN]):
        if finding.replacement is not None:
            by_file[finding.source].append(finding)
    return sum(_fix_file(path, findings) for path, findings in by_file.items())


def _fix_file(path: str, findings: Sequence[LintFinding]) -> int:
    data = read_bytes(path, MAX_BYTES)
    text = decode(data, path)
    fixed, count = replaced(text, findings)
    if not count or not _is_no_worse(text, fixed):
        return 0
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    _write(Path(path).resolve(), mark + fixed.text.encode())
    return count


def replaced(text: Text, findings: Sequence[LintFinding]) -> tuple[Text, int]:
    """A text with the replacements of its findings, and their number; of overlapping ones the first."""
    ordered = sorted({(text.offset(each.place), each.place.width, each.replacement or "") for each in findings})
    parts, position, count = list[str](), 0, 0
    for start, width, new in ordered:
        if start >= position:
            parts += [text.text[position:start], new]
            position, count = start + width, count + 1
    return Text(text.source, "".join([*parts, text.text[position:]])), count


def _is_no_worse(text: Text, fixed: Text) -> bool:
    """Tells whether the fixed text has no finding of a rule that the text has not, and no more of them."""
    before, after = lint_texts([text]), lint_texts([fixed])
    return len(after) <= len(before) and {each.rule for each in after} <= {each.rule for each in before}


def _write(path: Path, data: bytes) -> None:
    """Replaces a file as a whole, so that an interruption leaves the old one."""
    new = path.with_name(f".{path.name}.windlass")
    try:
        new.write_bytes(data)
        shutil.copymode(path, new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise input_error(str(path), f"cannot be written: {error.strerror}") from None
