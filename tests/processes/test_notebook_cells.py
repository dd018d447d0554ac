"""Cells of a real kernel on the ranks of jobs: results, errors, waits, and an interrupt that cancels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from terminal import daemon, environment, facts, until

import strays


class Kernel:
    """A kernel with the magics. `run` returns the output of a cell, its value and its error."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def begin(self, source: str) -> None:
        self._client.execute(source)

    def until_idle(
        self, on_text: Callable[[str], None] = lambda _text: None, timeout: float = strays.TIMEOUT_S
    ) -> tuple[str, str, str]:
        """Waits for the end of the cell that runs. `on_text` is called with all output after each piece of it."""
        text, value, error = "", "", ""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                message = self._client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text += content["text"]
                on_text(text)
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "error":
                error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return text, value, error
        raise AssertionError(f"the cell does not end: {text}")

    def run(self, source: str) -> tuple[str, str, str]:
        self.begin(source)
        return self.until_idle()


@pytest.fixture
def kernel(state: Path, tmp_path: Path) -> Iterator[tuple[Kernel, Any]]:
    with daemon(state, "--local-nodes", "2", "--local-gpus", "1"):
        env = {**environment(state), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "IPYTHONDIR": str(tmp_path)}
        manager, client = start_new_kernel(env=env, cwd=str(tmp_path))
        try:
            found = Kernel(client)
            assert found.run("%load_ext windlass.notebook\nbase = 20") == ("", "", "")
            yield found, manager
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def test_cells_return_values_and_errors_of_their_ranks(kernel):
    run = kernel[0].run
    text, value, error = run("%%windlass -N 2 --cpus 0\nimport os\nprint(os.environ['RANK'])\n[base, os.getcwd()]")
    assert (text.count("[r0] 0"), text.count("[r1] 1"), value[:4], error) == (1, 1, "[20,", "")
    text, value, error = run("%%windlass --cpus 0 --result total\nbase + 1")
    assert (value, run("total")[1]) == ("", "21")
    text, value, error = run("%%windlass --cpus 0 --name broken\nprint('before')\n1 / base.missing")
    assert "AttributeError: 'int' object has no attribute 'missing'" in text
    assert "has failed: rank 0" in error
    assert "Traceback" not in error
    assert "broken" in run("%windlass status broken")[0]
    assert "is no verb of this magic" in run("%windlass cancel broken")[2]


DIGITS = f"""%%windlass -N 2 --cpus 0 --name digits
import runpy, sys
sys.argv = ["train.py", "--epochs", "2"]
trained = runpy.run_path("{Path(__file__).parents[2] / "examples/digits/train.py"}", run_name="__main__")
trained["BATCH"]"""


def test_a_cell_trains_the_digits_on_two_ranks(kernel):
    kernel[0].begin(DIGITS)
    text, value, error = kernel[0].until_idle(timeout=strays.TIMEOUT_S * 6)  # two ranks import torch and train
    assert ("[r0] 2 ranks, gloo" in text, "[r0] test accuracy 0.9" in text, value, error) == (True, True, "64", ""), (
        text
    )


def test_an_interrupt_cancels_the_job_of_the_cell(kernel, state: Path):
    cells, manager = kernel
    sent = []

    def interrupt(text: str) -> None:
        if "[r0] begin" in text and not sent:
            sent.append(manager.interrupt_kernel())

    cells.begin("%%windlass --cpus 0 --name long\nimport time\nprint('begin', flush=True)\ntime.sleep(600)")
    text, _, error = cells.until_idle(interrupt)
    assert "is being cancelled" in text
    assert error.splitlines()[-1:] == ["interrupted"]
    assert until(state, "it['phase'] == 'Failed'", "status", "long")["reason"] == "Cancelled"
    assert cells.run("1 + 1")[1] == "2"


def test_a_cell_that_waits_says_why(kernel, state: Path):
    cells, manager = kernel
    sent = []

    def interrupt(text: str) -> None:
        if "late" in text and not sent:
            sent.append(manager.interrupt_kernel())

    assert cells.run("!windlass submit --name holder -N 2 -G 1 --cpus 0 -- sleep 600")[2] == ""
    until(state, "it['phase'] == 'Running'", "status", "holder")
    cells.begin("%%windlass --name late -G 1 --cpus 0\n1")
    text, _, _ = cells.until_idle(interrupt)
    assert "gpu" in text
    assert [each["name"] for each in facts(state, "queue")] == ["holder"]
