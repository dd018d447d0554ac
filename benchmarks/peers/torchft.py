"""torchft as a peer: replicas of one rank on gloo with a lighthouse; one replica is killed.

At first use it is installed into a cache folder of its own, in the version VERSION.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

VERSION = "0.2.0"
PACKAGES = ("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk", "opentelemetry-api")
"""Its requirements except torch, which is installed already."""
LIGHTHOUSE = """
import sys
from torchft.coordination import LighthouseServer
server = LighthouseServer(
    bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=100, quorum_tick_ms=10, heartbeat_timeout_ms=500
)
sys.stdout.write("http://127.0.0.1:" + server.address().rpartition(":")[2] + "\\n")  # not the host's name
sys.stdout.flush()
sys.stdin.read()
"""
REPLICA = """
import os, sys, time, torch
from datetime import timedelta
from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo

number, lighthouse = int(sys.argv[2]), sys.argv[3]
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=5)), min_replica_size=1, rank=0, world_size=1,
    load_state_dict=lambda state: None, state_dict=lambda: {}, store_addr="127.0.0.1", store_port=store.port,
    lighthouse_addr=lighthouse, replica_id=f"replica{number}", hostname="127.0.0.1", use_async_quorum=False,
)
while True:
    manager.start_quorum()
    manager.allreduce(torch.ones(1)).wait()
    if manager.should_commit():
        line = f"{number} {os.getpid()} {manager.num_participants()} {time.monotonic()}\\n"
        os.write(log, line.encode())
    time.sleep(0.02)
"""


def folder() -> Path | None:
    """Install torchft if needed and return its folder; None if that is impossible."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / f"windlass/torchft-{VERSION}"
    if not (cache / "torchft").is_dir():
        install = [Path(sys.executable).parent / "uv", "pip", "install", "--quiet", "--target", cache]
        for words in (PACKAGES, ("--no-deps", f"torchft=={VERSION}")):
            if subprocess.run([*install, *words], check=False, capture_output=True).returncode:
                return None
    return cache


@contextlib.contextmanager
def replicas(count: int, installed: Path) -> Iterator[Path]:
    """Run `count` replicas, each a process. Yields the log of their steps: number, pid, participants, time."""
    env = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *words: str) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, "-c", script, *words], subprocess.PIPE
        started.append(
            subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        )
        return started[-1]

    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "steps")
        log.touch()
        try:
            lighthouse = start(LIGHTHOUSE)
            assert lighthouse.stdout is not None
            address = lighthouse.stdout.readline().strip()
            for number in range(count):
                start(REPLICA, str(log), str(number), address)
            yield log
        finally:
            for each in started:
                each.kill()
                each.communicate()
