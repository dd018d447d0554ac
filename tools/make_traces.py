"""Writes the traces of examples/traces from the distributions below. Every run writes the same bytes."""

import gzip
import sys
from collections.abc import Mapping
from pathlib import Path

from windlass.backends.simulator.synthetic import HOUR, Distribution, SizeClass, synthesize
from windlass.backends.simulator.traces.jsonl import written

FOLDER = Path(__file__).resolve().parent.parent / "examples/traces"
MINUTE = 60_000

SIZES = (
    SizeClass(1, 12.0, 25 * MINUTE, 1.6),
    SizeClass(2, 3.0, 40 * MINUTE, 1.4),
    SizeClass(4, 3.0, 1 * HOUR, 1.3),
    SizeClass(8, 3.0, 2 * HOUR, 1.2),
    SizeClass(16, 1.0, 3 * HOUR, 1.0),
)
WORKING_DAY = (1.0,) * 7 + (2.0, 4.0, 6.0, 6.0, 5.0, 4.0, 6.0, 6.0, 5.0, 4.0, 3.0, 2.0) + (1.5,) * 5
SMALL = Distribution(MINUTE, SIZES, queues=(("research", 0.7), ("product", 0.3)), users=4)
DAILY = Distribution(
    MINUTE, (*SIZES, SizeClass(64, 0.2, 6 * HOUR, 0.8)), WORKING_DAY, (("vision", 5), ("speech", 3), ("ads", 2)), 8
)


def files() -> Mapping[str, bytes]:
    """Content of every file by its name."""
    small = written(synthesize(SMALL.at_load(32, 0.95), 200, seed=1).jobs)
    daily = written(synthesize(DAILY.at_load(128, 1.0), 1500, seed=2).jobs)
    return {"small.jsonl": small.encode(), "daily.jsonl.gz": gzip.compress(daily.encode(), mtime=0)}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_bytes(content)
        print(f"{FOLDER / name}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
