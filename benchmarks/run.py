"""Runs the benchmarks beside this file and prints one table. Arguments name some, in their order; none means all.

Some read public traces that are not part of the project: from $WINDLASS_TRACES, by default ../shared/data. The table
names the benchmarks whose traces are missing.
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
"""Benchmark → the folder of TRACES that it needs."""
NOT_MEASURED = "not measured: "
"""Start of a line with the reason why a benchmark could not measure a figure."""


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
    claims, missing, broken = [], [], []
    for path in [HERE / f"{name}.py" for name in names] or files:
        if path.stem in READS and not (TRACES / READS[path.stem]).is_dir():
            missing.append(f"{path.stem} was not measured: there is no folder {READS[path.stem]} of public traces")
            continue
        print(f"{path.stem} …", file=sys.stderr, flush=True)
        ran = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, text=True, check=False)
        claims += claims_in(ran.stdout)
        missing += [line for line in ran.stdout.splitlines() if line.startswith(NOT_MEASURED)]
        if ran.returncode != 0:
            broken.append(f"{path.stem} ended with exit code {ran.returncode}")
    if any("public traces" in line for line in missing):
        missing.append("set WINDLASS_TRACES to their folder; small_traces measures the project's own synthetic ones")
    print(table(claims), machine(), *missing, *broken, sep="\n")
    return 1 if broken else 0


def claims_in(output: str) -> Iterator[Claim]:
    """Yield the JSON lines of a benchmark's output; print all other lines."""
    for line in output.splitlines():
        if line.startswith('{"claim"'):
            yield Claim(**json.loads(line))
        else:
            print(f"    {line}", file=sys.stderr)


def table(claims: list[Claim]) -> str:
    """A Markdown table with padded columns, which is readable in a terminal too."""
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
