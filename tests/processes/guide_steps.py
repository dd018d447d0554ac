"""Runs the steps of a guide in a folder: files of the guide are written, its commands run, and its output compared.

A fenced block whose first line is the comment `# NAME` is a file. Of a `console` block, each line after `$` is a
command; the lines below it are output that must appear, numbers aside, except those with "…".
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+)\n")


def run_guide(guide: Path, folder: Path, env: Mapping[str, str], programs: Path | None = None) -> str:
    """Runs all steps and returns the output of all commands. `programs`: a folder to search for programs first."""
    printed = ""
    variables = {**env, "PATH": f"{programs}{os.pathsep}{env['PATH']}"} if programs else dict(env)
    for kind, text in _BLOCK.findall(guide.read_text(encoding="utf-8")):
        if found := _FILE.match(text):
            (folder / found[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / found[1]).write_text(text)
        elif kind == "console":
            for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = step.partition("\n")
                printed += _run(command, shown, folder, variables)
    return printed


def _run(command: str, shown: str, folder: Path, env: Mapping[str, str]) -> str:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    ran = subprocess.run(["bash", "-ec", command], env=env, cwd=folder, check=False, **streams)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}"
    printed = {_plain(line) for line in ran.stdout.splitlines()}
    missing = [line for line in shown.splitlines() if line.strip() and "…" not in line and _plain(line) not in printed]
    assert not missing, f"{command} did not print\n" + "\n".join(missing) + f"\nbut\n{ran.stdout}"
    return ran.stdout


def _plain(line: str) -> str:
    """A line with the same text for any number, and single spaces."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", line).split())
