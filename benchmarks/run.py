"""Runs the benchmarks beside this file and prints one table. Arguments name some, in their order; none means all.

Some read public traces that are no part of the project: from $WINDLASS_TRACES, without it from ../shared/data. What is
not there is not measured, and the table says so.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = Path(os.environ.get("WINDLASS_TRACES", HERE.parents[1] / "shared/data"))
READS = {"openb": "openb", "muri": "muri", "philly": "philly"}
"""Benchmark → the folder of TRACES without which it has nothing to measure."""
NOT_MEASURED = "not measured: "
"""How a benchmark begins a line about what it could not measure, and why."""


@dataclass(frozen=True)
class Claim:
    """One line of the table; see README.md beside this file."""

    claim: str
    measured: float
    unit: str
    target: float
    better: str = "lower"
    peer: str = ""
    peer_measured: float | None = None

    @property
    def met(self) -> bool:
        return self.measured <= self.target if self.better == "lower" else self.measured >= self.target


def main(names: list[str]) -> int:
    files = [path for path in sorted(HERE.glob("*.py")) if path != Path(__file__).resolve()]
    known = {path.stem for path in files}
    if unknown := set(names) - known:
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    claims, absent, broken = [], [], []
    for path in [HERE / f"{name}.py" for name in names] or files:
        if path.stem in READS and not (TRACES / READS[path.stem]).is_dir():
            absent.append(f"{path.stem} was not measured: there is no folder {READS[path.stem]} of public traces")
            continue
        print(f"{path.stem} …", file=sys.stderr, flush=True)
        ran = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, text=True, check=False)
        claims += claims_in(ran.stdout)
        absent += [line for line in ran.stdout.splitlines() if line.startswith(NOT_MEASURED)]
        if ran.returncode != 0:
            broken.append(f"{path.stem} ended with exit code {ran.returncode}")
    if any("public traces" in line for line in absent):
        absent.append("set WINDLASS_TRACES to where they are; small_traces measures the project's own, synthetic ones")
    print(table(claims), machine(), *absent, *broken, sep="\n")
    return 1 if broken else 0


def claims_in(output: str) -> Iterator[Claim]:
    """The JSON lines among what a benchmark said; the rest goes on to the screen."""
    for line in output.splitlines():
        if line.startswith('{"claim"'):
            yield Claim(**json.loads(line))
        else:
            print(f"    {line}", file=sys.stderr)


def table(claims: list[Claim]) -> str:
    """Markdown, columns padded so that it reads well in a terminal too."""
    head = ("claim", "measured", "target", "", "peer", "ratio to peer")
    rows = [head, tuple("-" * 3 for _ in head), *(row(claim) for claim in claims)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |" for cells in rows
    )


def row(claim: Claim) -> tuple[str, ...]:
    peer = f"{claim.peer} {claim.peer_measured:.4g} {claim.unit}" if claim.peer_measured else ""
    ratio = f"{claim.measured / claim.peer_measured:.2f}" if claim.peer_measured else ""
    bound = "≤" if claim.better == "lower" else "≥"
    return (
        claim.claim,
        f"{claim.measured:.4g} {claim.unit}",
        f"{bound} {claim.target:.4g} {claim.unit}",
        "met" if claim.met else "missed",
        peer,
        ratio,
    )


def machine() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"\n{cores} cores, {memory:.0f} GiB, Python {platform.python_version()}, {platform.machine()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
