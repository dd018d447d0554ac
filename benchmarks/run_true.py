"""Time of `windlass run -- true` from start to exit, with and without a daemon."""

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import windlass

ROUNDS = 15
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def main() -> None:
    compileall.compile_dir(Path(windlass.__file__).parent, quiet=1)  # as for an installed package
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINDLASS_STATE"] = f"{folder}/state"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        alone = rounds()
        subprocess.run([WINDLASS, "up", "-d"], check=True, stdout=subprocess.DEVNULL)
        try:
            served = rounds()
        finally:
            subprocess.run([WINDLASS, "down", "--yes"], check=True, stdout=subprocess.DEVNULL)
        python = [timed([sys.executable, "-c", "pass"]) for _ in range(ROUNDS)]
    for name, target, seconds in (("daemon running", 0.25, served), ("no daemon", 0.4, alone)):
        print(f"{name}: {' '.join(f'{second * 1000:.0f}' for second in seconds)} ms")
        claim = {"claim": f"`windlass run -- true`, {name}", "measured": statistics.median(seconds), "unit": "s"}
        print(json.dumps({**claim, "target": target}))
    print(f"of that, Python alone: {statistics.median(python) * 1000:.0f} ms")


def rounds() -> list[float]:
    command = [WINDLASS, "run", "--", "true"]
    timed(command)  # fills the file cache
    return [timed(command) for _ in range(ROUNDS)]


def timed(command: list[str]) -> float:
    """Seconds."""
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
