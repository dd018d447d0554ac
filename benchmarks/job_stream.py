"""A stream of two-rank `true` jobs through the daemon, and what the daemon grows to.

One client hands them in, in batches. `job_stream.py 1000 10000` gives the numbers of jobs: those that are timed, and
those after which the memory is compared.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from windlass.jobs.options import RunOptions, from_options
from windlass.server.client import Client

BATCH = 50
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def main(timed: int, grown: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        nodes = ["--local-nodes", "2", "--local-gpus", "2"]
        subprocess.run([WINDLASS, "up", "-d", *nodes, "--state", str(state)], check=True, stdout=subprocess.DEVNULL)
        try:
            measure(Client(state), timed, grown)
        finally:
            down = [WINDLASS, "down", "--yes", "--state", str(state)]
            subprocess.run(down, check=True, stdout=subprocess.DEVNULL)


def measure(client: Client, timed: int, grown: int) -> None:
    pid = client.ping()["pid"]
    stream(client, BATCH)
    seconds = stream(client, timed)
    early = resident(pid)
    rest = stream(client, grown - timed)
    late = resident(pid)
    print(
        f"{timed} jobs in {seconds:.1f} s, {grown - timed} more in {rest:.1f} s; daemon {early:.0f}, then {late:.0f} MB"
    )
    claim("two-rank `true` jobs through the daemon", timed / seconds, 100, "jobs/s", better="higher")
    claim(f"memory of the daemon after {grown:,} jobs", late, 150, "MB")
    claim(f"growth of the daemon from {timed:,} to {grown:,} jobs", late - early, 10, "MB")


def stream(client: Client, count: int) -> float:
    """Seconds until the last of `count` jobs has ended; at most 20 batches wait at a time."""
    begin = time.perf_counter()
    for start in range(0, count, BATCH):
        while len(client.jobs()) > 20 * BATCH:
            time.sleep(0.05)
        options = RunOptions(name="true", nodes=2, gpus=1)
        submissions = [from_options(options, ["true"], cwd="/", user="bench") for _ in range(min(BATCH, count - start))]
        client.submit(submissions)
    while client.jobs():
        time.sleep(0.02)
    return time.perf_counter() - begin


def resident(pid: int) -> float:
    """Megabytes (10**6)."""
    fields = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in fields if line.startswith("VmRSS")) * 1024 / 1e6


def claim(what: str, measured: float, target: float, unit: str, better: str = "lower") -> None:
    print(json.dumps({"claim": what, "measured": measured, "unit": unit, "target": target, "better": better}))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3] or ("1000", "10000")))
