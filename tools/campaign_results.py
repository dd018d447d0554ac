"""The results of fault campaigns: one line of JSON for each part, and the sums of all parts as a table.

python tools/campaign_results.py FILE    prints the table of docs/reliability.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def append(file: Path, part: Mapping[str, Any]) -> None:
    """Adds the result of a part: first seed, schedules, faults by kind, seeds with violations, seconds."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as stream:
        stream.write(json.dumps(part, sort_keys=True) + "\n")


def table(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table; a schedule that ran twice counts once, by its first seed and number."""
    seeds: set[int] = set()
    faults: Counter[str] = Counter()
    violations: list[int] = []
    for part in parts:
        run = set(range(part["first"], part["first"] + part["schedules"]))
        if run <= seeds:
            continue
        seeds |= run
        faults.update(part["faults"])
        violations += part["violations"]
    yield "| | number |"
    yield "|---|---|"
    yield f"| schedules (seeds {min(seeds, default=0)} to {max(seeds, default=0)}) | {len(seeds):,} |"
    yield from (f"| {kind} | {number:,} |" for kind, number in sorted(faults.items(), key=lambda item: -item[1]))
    yield f"| schedules with violations | {len(violations):,} |"


def main() -> None:
    lines = Path(sys.argv[1]).read_text().splitlines()
    print(*table(map(json.loads, lines)), sep="\n")


if __name__ == "__main__":
    main()
