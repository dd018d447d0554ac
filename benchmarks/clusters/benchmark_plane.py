"""A control plane for a benchmark, and processes of the operator on it. Its etcd does not wait for the disk."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windlass.controlplane.build import BuildError, find_all
from windlass.controlplane.cluster import ControlPlane, Settings, start
from windlass.controlplane.processes import spawn

WINDLASS = str(Path(sys.executable).with_name("windlass"))


def run_on_plane(
    programs: Sequence[str], measure: Callable[[ControlPlane, Path], None], settings: Settings | None = None
) -> int:
    """Measures on a control plane of these programs, with an empty folder. Returns the exit code of the benchmark."""
    try:
        find_all(programs)
    except BuildError as failed:
        print(failed, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        plane = start(Path(folder) / "plane", settings or Settings())
        try:
            measure(plane, Path(folder))
        finally:
            plane.close()
    return 0


def install_operator(plane: ControlPlane) -> None:
    """Installs the operator's objects, and points $KUBECONFIG to the control plane."""
    os.environ["KUBECONFIG"] = str(plane.kubeconfig)
    subprocess.run([WINDLASS, "operator", "install", "--wait", "0"], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def operator_process(folder: Path, name: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a replica of the operator until the end of the block; its log is printed after an error."""
    log = folder / f"{name}.log"
    endpoints = ["--metrics-port", "0", "--metrics-host", "127.0.0.1", "--history", f"sqlite:///{folder}/{name}.sqlite"]
    process = spawn([WINDLASS, "operator", "run", *endpoints, *options], log)
    try:
        yield process
    except BaseException:
        print(log.read_text()[-3_000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(30)


async def each_of(items: Iterable[Any], do: Callable[[Any], Awaitable[Any]], at_once: int = 16) -> None:
    """Calls `do` for all of them, a number of them at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    await asyncio.gather(*(work() for _ in range(at_once)))


def report(claim: str, measured: float, unit: str, target: float, better: str = "lower", **peer: str | float) -> None:
    """Prints a line of the benchmarks' table."""
    print(json.dumps({"claim": claim, "measured": measured, "unit": unit, "target": target, "better": better, **peer}))
