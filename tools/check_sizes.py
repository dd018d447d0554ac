"""Checks sizes of functions and files, file names without meaning, and unfinished work: no linter does.

Looks at every Python file that git knows or would add. Prints one line per finding; exits 1 if there is one.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    findings = [finding for path in python_files(root) for finding in check(path, path.relative_to(root))]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


def python_files(root: Path) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [root / name for name in listing.stdout.splitlines() if (root / name).exists()]


def check(path: Path, name: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if name.stem in EMPTY_NAMES:
        yield f"{name}: a name that does not tell what is inside"
    if (lines := text.count("\n")) > MAX_FILE_LINES:
        yield f"{name}: {lines} lines, at most {MAX_FILE_LINES}"
    yield from long_functions(text, name)
    yield from unfinished(text, name)


def long_functions(text: str, name: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def unfinished(text: str, name: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        marked = token.type == tokenize.COMMENT and UNFINISHED.search(token.string)
        if marked or (token.type == tokenize.NAME and token.string == "NotImplementedError"):
            yield f"{name}:{token.start[0]}: unfinished: {token.line.strip()[:80]}"


if __name__ == "__main__":
    sys.exit(main())
