"""Time from start to exit of `windlass doctor host`, and of the help of `doctor` and `lint`: imports and parsing."""

import compileall
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import windlass

ROUNDS, TARGET_S = 15, 0.25
WINDLASS = str(Path(sys.executable).with_name("windlass"))
CLAIMS = {
    "start of `windlass doctor`": ("doctor", "--help"),
    "start of `windlass lint`": ("lint", "--help"),
    "`windlass doctor host`, all checks of this machine": ("doctor", "host"),
}


def main() -> None:
    compileall.compile_dir(Path(windlass.__file__).parent, quiet=1)  # as for an installed package
    for name, words in CLAIMS.items():
        seconds = [timed([WINDLASS, *words]) for _ in range(ROUNDS)]
        print(f"{name}: {' '.join(f'{second * 1000:.0f}' for second in seconds)} ms")
        print(json.dumps({"claim": name, "measured": statistics.median(seconds), "unit": "s", "target": TARGET_S}))


def timed(command: list[str]) -> float:
    """Seconds. The exit code of a check is part of its answer."""
    begin = time.monotonic()
    subprocess.run(command, check=False, capture_output=True)
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
