"""Time of `windlass squeue` with 10,000 jobs in the queue, from start to exit, and CPU time of command and daemon."""

import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import windlass

JOBS = 10_000
ROUNDS = 9
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def main() -> None:
    compileall.compile_dir(Path(windlass.__file__).parent, quiet=1)  # as for an installed package
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINDLASS_STATE"] = f"{folder}/state"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        call("up", "-d", "--local-nodes", "1", "--local-gpus", "1")
        try:
            call("submit", "--array", f"0-{JOBS - 1}", "-G", "1", "--", "sleep", "3600")
            daemon = process_of_daemon()
            before = cpu_of(daemon)
            times = [timed() for _ in range(ROUNDS)]
            of_daemon = (cpu_of(daemon) - before) / ROUNDS
        finally:
            call("down", "--yes")
    seconds, processor = (statistics.median(each) for each in zip(*times, strict=True))
    claim = {"claim": f"`windlass squeue` with {JOBS:,} jobs", "measured": seconds, "unit": "s", "target": 0.3}
    print(json.dumps({**claim, "cpu_of_command": processor, "cpu_of_daemon": of_daemon, "load": os.getloadavg()[0]}))


def call(*words: str) -> None:
    subprocess.run([WINDLASS, *words], check=True, stdout=subprocess.DEVNULL)


def process_of_daemon() -> int:
    shown = subprocess.run([WINDLASS, "status", "-o", "json"], check=True, capture_output=True).stdout
    return int(json.loads(shown)["pid"])


def cpu_of(process: int) -> float:
    """Seconds of CPU time of a process until now."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def timed() -> tuple[float, float]:
    """Seconds from start to exit, and seconds of CPU time."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    shown = subprocess.run([WINDLASS, "squeue"], check=True, capture_output=True).stdout
    after, taken = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    assert shown.count(b"\n") == JOBS + 1, shown[:200]
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
