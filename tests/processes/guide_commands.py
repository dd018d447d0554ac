"""Runs the commands of a guide, and compares what they print with what the guide shows.

Each line with `$` of a `console` block, and each line of an `sh` block, is run as it is, in a folder that has the files
it names. A shown line must be in the real output; times, sizes and other numbers may differ, and `…` stands for
lines or for the rest of a line. Commands that match ELSEWHERE need a cluster or root; they do not run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from terminal import environment, windlass

BLOCK = re.compile(r"^```(?P<kind>console|sh)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(
    r"kubectl|helm |sudo |srun |IMAGE|--on |--context|team-a|operator install|doctor cluster|node0|collector:"
    r"|prometheus:9090|pip install|/var/lib|--gpu |^windlass ui$|^make |/activate$|operator check"
)
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*(?:m\d\ds| ms| s\b)?")


class Place(NamedTuple):
    """State folder and working folder of the commands of a guide."""

    state: Path
    folder: Path


class Shown(NamedTuple):
    """A command of a block, and the lines below it."""

    command: str
    lines: list[str]


def commands(kind: str, block: str) -> Iterator[Shown]:
    joined = re.sub(r" *\\\n *", " ", block)
    if kind == "sh":
        yield from (Shown(line, []) for line in joined.splitlines() if line.strip())
        return
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield Shown(command, [line for line in lines if line.strip()])


def run(place: Place, command: str) -> tuple[int, str]:
    env = environment(place.state)
    env["PATH"] = f"{place.folder}/bin{os.pathsep}{env['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", command], env=env, cwd=place.folder, capture_output=True, text=True, check=False, timeout=200
    )
    return ran.returncode, ran.stdout + ran.stderr


def plain(line: str) -> str:
    """The line without numbers and without what depends on the time that a hang has lasted."""
    return " ".join(NUMBER.sub("#", line).replace("no rank goes on: ", "").split())


def check(place: Place, shown: Shown, codes: Sequence[int]) -> None:
    """Runs a command, which must exit with one of these codes."""
    code, printed = run(place, shown.command)
    assert code in codes, f"{shown.command} → {code}\n{printed}"
    assert "\nTraceback" not in f"\n{printed}", printed
    real = [plain(line) for line in printed.replace(str(place.state), "~/.local/state/windlass").splitlines()]
    for line in (each for each in shown.lines if each != "…"):
        head, more, _ = plain(line).partition(" …")
        assert any(each.startswith(head) if more else each == head for each in real), f"{line}\nis not in\n{printed}"


def nothing(_place: Place) -> None:
    """The block needs no file."""


def check_guide(
    place: Place, guide: str, preparations: Sequence[Callable[[Place], None]], codes: Sequence[int] = (0,)
) -> None:
    """Prepares and runs each block of a guide in order; ends the daemon that a block has started."""
    blocks = list(BLOCK.finditer(guide))
    assert len(blocks) == len(preparations), "each block has its preparation"
    try:
        for block, prepare in zip(blocks, preparations, strict=True):
            prepare(place)
            for shown in commands(block["kind"], block["text"]):
                if not ELSEWHERE.search(shown.command):
                    check(place, shown, codes)
    finally:
        windlass(place.state, "down", "--yes")
