"""Two-rank `true` jobs through the daemon: jobs per second, and its memory after 1,000 jobs and after 10,000 more."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from windlass.jobs.description.options import RunOptions, from_options
from windlass.server.client import Client
from windlass.server.discovery import find_daemon

FIRST, MORE = 1_000, 10_000
AT_ONCE = 50
"""Jobs in one request."""
AHEAD = 200
"""Maximum number of jobs that wait or run at a time."""
WINDLASS = str(Path(sys.executable).with_name("windlass"))
JOB = from_options(RunOptions(name="stream", nodes="2", gpus=1), ["true"], cwd="/", user="bench")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        up = [WINDLASS, "up", "-d", "--state", str(state), "--local-nodes", "2", "--local-gpus", "4"]
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        try:
            measure(find_daemon(state))
        finally:
            subprocess.run([WINDLASS, "down", "--yes", "--state", str(state)], check=True, stdout=subprocess.DEVNULL)


def measure(client: Client) -> None:
    pid = client.facts["pid"]
    run_jobs(client, AT_ONCE)  # warms up: imports and caches
    rate = FIRST / run_jobs(client, FIRST)
    before = resident(pid)
    later = MORE / run_jobs(client, MORE)
    after = resident(pid)
    assert_all_succeeded(client)
    print(f"{rate:.0f} jobs/s, then {later:.0f}")
    print(f"resident {before:.1f} MB after {FIRST} jobs, {after:.1f} MB after {MORE} more")
    claim("two-rank `true` jobs through the daemon", rate, "jobs/s", 100, better="higher")
    claim("daemon's memory after 1,000 jobs", before, "MB", 150)
    claim("daemon's memory after 10,000 more jobs, relative to that", after / before, "×", 1.1)


def run_jobs(client: Client, count: int) -> float:
    """Seconds from the first submission to the last end."""
    begin = time.monotonic()
    submitted = 0
    while submitted < count or unfinished(client):
        if submitted < count and unfinished(client) < AHEAD:
            client.submit([JOB] * AT_ONCE, environment={"PATH": "/usr/bin:/bin"})
            submitted += AT_ONCE
        else:
            time.sleep(0.01)
    return time.monotonic() - begin


def assert_all_succeeded(client: Client) -> None:
    """Check all jobs at the end, because such a long listing takes memory."""
    phases = [job["phase"] for job in client.history(limit=AT_ONCE + FIRST + MORE)]
    assert phases == ["Succeeded"] * (AT_ONCE + FIRST + MORE)


def unfinished(client: Client) -> int:
    facts = client.ping()
    return int(facts["waiting"] + facts["holding"])


def resident(pid: int) -> float:
    """Resident memory in MiB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("VmRSS:"))) / 1024


def claim(what: str, measured: float, unit: str, target: float, better: str = "lower") -> None:
    print(json.dumps({"claim": what, "measured": measured, "unit": unit, "target": target, "better": better}))


if __name__ == "__main__":
    main()
