"""`windlass notebook` in a pod of a real node, reached by a port that kubectl forwards."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from operator_account import LEASE

import strays
from windlass.controlplane.real_nodes import RealCluster

from .cluster_terminal import Terminal, until_says
from .operator_process import leading_operator

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(400)]


def code_of(address: str) -> int:
    """The HTTP status of a GET."""
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310 - on this machine
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def until_served(page: str) -> None:
    """Waits until the server of a pod that runs listens, too."""
    async with asyncio.timeout(strays.TIMEOUT_S * 4):
        while True:
            try:
                assert await asyncio.to_thread(code_of, page) == 200
            except (OSError, http.client.HTTPException):  # kubectl accepts before the server listens
                await asyncio.sleep(0.5)
            else:
                return


async def until_printed(windlass: Terminal, text: str) -> str:
    """Waits for a text in the logs of the notebook; returns the logs."""
    printed = ""
    try:
        async with asyncio.timeout(strays.TIMEOUT_S * 3):
            while True:
                printed = (await windlass("logs", "lesson")).out
                if text in printed:
                    return printed
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"never {text!r} in {printed}") from None


def test_a_notebook_in_a_pod_answers_by_its_token_and_saves_its_files(real_nodes: RealCluster, tmp_path: Path):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH: a port is forwarded with it")
    real_nodes.know_images("example.com/notebook:1")
    plane = real_nodes.plane

    async def story() -> None:
        windlass = Terminal(plane.kubeconfig, tmp_path, f"default/{LEASE}")
        async with leading_operator(plane):
            await it_is_opened_and_cancelled(windlass)

    asyncio.run(story())


async def it_is_opened_and_cancelled(windlass: Terminal) -> None:
    async with windlass.began("notebook", "--image", "example.com/notebook:1", "--name", "lesson") as process:
        assert process.stdout is not None
        await until_says(process, "its files end with the pod")
        page = (await asyncio.wait_for(process.stdout.readline(), strays.TIMEOUT_S * 3)).decode().strip()
        base, _, token = page.partition("/?token=")
        await until_served(page)
        assert await asyncio.to_thread(code_of, f"{base}/api/kernels") == 403
        assert await asyncio.to_thread(code_of, f"{base}/api/kernels?token={token}") == 200
        await windlass.done("cancel", "lesson")
    printed = await until_printed(windlass, "the workspace was saved: 1 files")
    assert token not in printed
