"""`windlass run -- true`, from its start to its exit, as a person at a prompt feels it: with a daemon and without."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 15
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def main() -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(Path(__file__).parents[1] / "src")], check=True)
    with tempfile.TemporaryDirectory() as folder:
        alone = [once(folder + "/alone") for _ in range(RUNS + 1)][1:]
        subprocess.run([WINDLASS, "up", "-d", "--state", folder + "/up"], check=True, stdout=subprocess.DEVNULL)
        try:
            served = [once(folder + "/up") for _ in range(RUNS + 1)][1:]
        finally:
            subprocess.run(
                [WINDLASS, "down", "--yes", "--state", folder + "/up"], check=True, stdout=subprocess.DEVNULL
            )
    for how, seconds, target in (("daemon running", served, 0.25), ("no daemon", alone, 0.4)):
        print(f"{how}: min {min(seconds):.3f}, median {statistics.median(seconds):.3f}, max {max(seconds):.3f} s")
        claim = {"claim": f"`windlass run -- true`, {how}", "measured": statistics.median(seconds), "unit": "s"}
        print(json.dumps(claim | {"target": target}))


def once(state: str) -> float:
    begin = time.perf_counter()
    subprocess.run(
        [WINDLASS, "run", "--", "true"],
        check=True,
        env=os.environ | {"WINDLASS_STATE": state},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
