"""Runs an operator in a process outside the cluster, for tests with real nodes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubernetes_host import JOBS, create_definitions
from operator_account import LEASE, operator_kubeconfig
from planes.tidy import clear

import strays
from windlass.controlplane.cluster import ControlPlane

PROGRAM = """
import asyncio, sys
from windlass.server.operator.process import OperatorOptions, run_operator
from windlass.backends.kubernetes.client.access import find
here = {"host": "127.0.0.1", "port": 0, "address": "http://127.0.0.1:0"}
options = OperatorOptions(find(None), "sqlite:///:memory:", namespace="default", lease_name=sys.argv[1], **here)
asyncio.run(run_operator(options, lambda text: print(text, flush=True)))
"""


@asynccontextmanager
async def operator(kubeconfig: Path, lease: str) -> AsyncIterator[None]:
    """Runs a leading operator, whose Lease in `default` has its address; ends it with SIGTERM as a pod is ended."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, lease, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment
    )
    assert process.stdout is not None
    lines = []
    try:
        async with asyncio.timeout(strays.TIMEOUT_S * 3):
            while not lines or not lines[-1].startswith("leading"):
                lines.append((await process.stdout.readline()).decode())
                assert lines[-1], "".join(lines)
        rest = asyncio.create_task(process.stdout.read())
        yield
        process.terminate()
        await asyncio.wait_for(asyncio.gather(process.wait(), rest), strays.TIMEOUT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def leading_operator(plane: ControlPlane) -> AsyncIterator[None]:
    """Runs an operator that leads a cluster of real nodes; at the end the jobs and their pods are removed."""
    async with asyncio.timeout(strays.TIMEOUT_S * 15), plane.api() as api:
        await create_definitions(api)
        try:
            async with operator(operator_kubeconfig(plane), LEASE):
                yield
        finally:
            await clear(api, JOBS, nodes=False)
