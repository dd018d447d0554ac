"""`--fix`: writes the replacements of findings into their files, where the result has fewer faults."""

from __future__ import annotations

import codecs
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.diagnose.lint.engine import MAX_BYTES, lint_paths, lint_texts
from windlass.diagnose.lint.findings import LintFinding
from windlass.jobs.errors import input_error
from windlass.jobs.syntax.text import Text, decode, read_bytes

MAX_TRIED = 50
"""Replacements of a file that are tried one by one, where all of them together make it no better."""


def fix_paths(paths: Iterable[str]) -> int:
    """Mends the files among some paths and returns the number of mended faults.

    Raises InputError if a file cannot be written.
    """
    by_file = defaultdict[str, list[LintFinding]](list)
    for finding in lint_paths(paths):
        if finding.replacement is not None:
            by_file[finding.source].append(finding)
    return sum(_fix_file(path, findings) for path, findings in by_file.items())


def fix_stream(data: bytes, source: str) -> tuple[bytes, int, list[LintFinding]]:
    """Mends a text without a file: the mended bytes, the number of mended faults, and the findings that are left.

    Raises InputError for bytes that are no text.
    """
    text = decode(data, source)
    fixed, count = _mended(text, [each for each in lint_texts([text]) if each.replacement is not None])
    return _encoded(fixed, data) if count else data, count, lint_texts([fixed])


def _fix_file(path: str, findings: Sequence[LintFinding]) -> int:
    data = read_bytes(path, MAX_BYTES)
    fixed, count = _mended(decode(data, path), findings)
    if count:
        _write(Path(path).resolve(), _encoded(fixed, data))
    return count


def _mended(text: Text, findings: Sequence[LintFinding]) -> tuple[Text, int]:
    """A text with its replacements, and their number; without those that would leave it with as many findings."""
    fixed, count = replaced(text, findings)
    if not count:
        return text, 0
    found = lint_texts([text])
    if _is_better(found, lint_texts([fixed])):
        return fixed, count
    kept = list[LintFinding]()
    for each in findings[:MAX_TRIED]:
        left = lint_texts([replaced(text, [*kept, each])[0]])
        if _is_better(found, left):
            kept.append(each)
            found = left
    return replaced(text, kept)


def _encoded(text: Text, data: bytes) -> bytes:
    """The bytes of a mended text, with the byte order mark of the data from which it was read."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return mark + text.text.encode()


def replaced(text: Text, findings: Sequence[LintFinding]) -> tuple[Text, int]:
    """A text with the replacements of its findings, and their number; of overlapping ones the first."""
    ordered = sorted({(text.offset(each.place), each.place.width, each.replacement or "") for each in findings})
    parts, position, count = list[str](), 0, 0
    for start, width, new in ordered:
        if start >= position:
            parts += [text.text[position:start], new]
            position, count = start + width, count + 1
    return Text(text.source, "".join([*parts, text.text[position:]])), count


def _is_better(before: Sequence[LintFinding], after: Sequence[LintFinding]) -> bool:
    """Tells whether a fixed text has fewer findings than before, and none of a rule that had none."""
    return len(after) < len(before) and {each.rule for each in after} <= {each.rule for each in before}


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
