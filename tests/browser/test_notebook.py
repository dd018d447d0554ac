"""`windlass notebook` in a browser: the first cells, ranks, a kernel that dies, the token, idleness, preemption."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from terminal import ok, phase, until, windlass

import strays
from windlass.jupyter.folder import NotebookFolder

NAME = "lesson"
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A daemon with one node of two slots, whose jobs may be preempted at once."""
    folder = tmp_path_factory.mktemp("notebook")
    cluster = folder / "cluster.yaml"
    cluster.write_text("nodes: [{name: n1, cpus: 2, gpus: 1}]\npolicy: {min_runtime: 0s}\n")
    ok(folder / "state", "up", "-d", "--cluster", str(cluster))
    yield folder / "state"
    ok(folder / "state", "down", "--yes")
    strays.assert_none_left([folder / "state"])


def start(state: Path, *words: str, name: str = NAME) -> str:
    return ok(state, "notebook", "--name", name, "--cpus", "0", *words).strip()


def stop(state: Path, name: str = NAME) -> None:
    """Cancels the notebook and waits for its end."""
    job = job_of(state, name)
    windlass(state, "cancel", job)
    phase(state, job, "Failed")


def job_of(state: Path, name: str = NAME) -> str:
    lines = json.loads(ok(state, "queue", "-o", "json"))
    return str(next(line["id"] for line in lines if line["name"] == name))


def folder_of(state: Path, name: str = NAME) -> NotebookFolder:
    return NotebookFolder(state / "notebooks" / name)


def code_of(address: str, visitor: urllib.request.OpenerDirector | None = None) -> int:
    """The HTTP status of a GET. `visitor`: with the cookies of earlier visits."""
    try:
        with (visitor or urllib.request.build_opener()).open(address, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def keeping_cookies() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor())


class NotebookTab:
    """The first notebook in a browser."""

    def __init__(self, browser: Any, address: str) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 1600})
        self.page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.get_by_text("Python 3 (ipykernel) | Idle").first.wait_for()  # earlier, a dialog asks for the kernel

    def run(self, number: int, expected: str) -> str:
        """Runs the cell of this number and waits until its output holds a text; returns the output."""
        self.page.locator(".jp-CodeCell .cm-content").nth(number).click()
        self.page.keyboard.press("Shift+Enter")
        output = self.page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea")
        output.get_by_text(expected).first.wait_for()
        return str(output.inner_text())

    def write(self, number: int, text: str) -> None:
        """Replaces the source of a cell."""
        self.page.locator(".jp-CodeCell .cm-content").nth(number).click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)


def test_cells_run_on_two_ranks_and_a_dead_kernel_is_said(browser: Any, state: Path):
    tab = NotebookTab(browser, start(state))
    # 1. The first cell checks the machine.
    checked = tab.run(0, "memory")
    assert "GPU" in checked
    assert "NCCL" in checked
    # 2. A cell runs on two ranks: labelled output, and the value of rank 0.
    tab.write(1, "%load_ext windlass.notebook\nbase = 20\nprint('loaded')")
    tab.run(1, "loaded")
    output = tab.run(2, "22")
    assert "[r0] rank 0 of 2" in output
    assert "[r1] rank 1 of 2" in output
    # 3. The line magic asks about jobs.
    tab.write(1, "%windlass queue")
    assert NAME in tab.run(1, job_of(state))
    # 4. A kernel that is killed: the page and the log say so, and the next cell runs in a new one.
    tab.write(1, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    tab.page.locator(".jp-CodeCell .cm-content").nth(1).click()
    tab.page.keyboard.press("Shift+Enter")
    tab.page.get_by_text("appears to have died").wait_for()
    tab.page.get_by_role("button", name="Ok").click()
    until_logged(state, job_of(state), "the kernel of start.ipynb has died and was started again")
    assert "memory" in tab.run(0, "memory")
    tab.context.close()
    stop(state)


def test_without_the_token_nothing_is_served(browser: Any, state: Path):
    address = start(state)
    base, token = address.split("/?token=")
    assert (code_of(f"{base}/api/kernels"), code_of(f"{base}/api/kernels?token=wrong")) == (403, 403)
    assert code_of(f"{base}/api/kernels?token={token}") == 200
    job = job_of(state)
    processes = [each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if os.access(each, os.R_OK)]
    assert not [each for each in processes if token.encode() in each]
    assert token not in ok(state, "logs", job)
    assert token not in ok(state, "status", job, "-o", "json")
    stop(state)


def test_an_idle_notebook_ends_and_returns_with_its_workspace(state: Path):
    start(state, "--idle", "3s", name="idle")
    job = job_of(state, "idle")
    folder = folder_of(state, "idle")
    (folder.workspace / "own.txt").write_text("kept")
    assert phase(state, job, "Succeeded")["exit_code"] == 0
    printed = ok(state, "logs", job)
    assert "idle for 3 s: the notebook ends" in printed
    assert "the workspace was saved: 2 files in " in printed
    for each in folder.workspace.iterdir():
        each.unlink()
    start(state, name="idle")
    assert (folder.workspace / "own.txt").read_text() == "kept"
    assert "the workspace was restored from" in ok(state, "logs", job_of(state, "idle"))
    stop(state, "idle")


def test_a_preempted_notebook_waits_and_returns_with_a_new_token(state: Path):
    address = start(state, "-G", "1", name="preempted")
    page, visitor = address.partition("?")[0], keeping_cookies()
    assert (code_of(address, visitor), code_of(f"{page}api/kernels", visitor)) == (200, 200)
    job = job_of(state, "preempted")
    folder = folder_of(state, "preempted")
    (folder.workspace / "own.txt").write_text("kept")
    urgent = ok(state, "submit", "--priority", "10", "-G", "1", "--cpus", "0", "--name", "urgent", "--", "sleep", "60")
    phase(state, urgent.strip(), "Running")
    assert phase(state, job, "Queued")["reason"]
    assert list(folder.checkpoints.iterdir())
    ok(state, "cancel", urgent.strip())
    again = start(state, name="preempted")
    assert again.partition("?")[0] == page  # the port was free
    assert code_of(again.replace("?", "api/kernels?")) == 200
    assert code_of(address.replace("?", "api/kernels?")) == 403
    assert code_of(f"{page}api/kernels", visitor) == 403
    assert (folder.workspace / "own.txt").read_text() == "kept"
    stop(state, "preempted")


def test_a_server_that_is_killed_starts_again_by_the_same_command(state: Path):
    start(state, name="killed")
    job = job_of(state, "killed")
    (folder_of(state, "killed").workspace / "own.txt").write_text("kept")
    pid = json.loads(ok(state, "status", job, "-o", "json"))["tasks"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    until(state, "it['attempts'] == 2", "status", job)
    assert code_of(start(state, name="killed")) == 200
    assert (folder_of(state, "killed").workspace / "own.txt").read_text() == "kept"
    stop(state, "killed")


def test_a_name_of_another_job_and_options_of_gangs_are_refused(state: Path):
    other = ok(state, "submit", "--cpus", "0", "--name", "other", "--", "sleep", "60").strip()
    refused = windlass(state, "notebook", "--name", "other")
    assert (refused.returncode, refused.stderr) == (
        2,
        f"windlass: {other} is no notebook and has its name\nchoose another one: --name NAME\n",
    )
    gang = windlass(state, "notebook", "-N", "2")
    assert (gang.returncode, gang.stderr) == (2, "windlass: a notebook has one rank: it takes no nodes\nremove it\n")
    ok(state, "cancel", other)


def until_logged(state: Path, job: str, text: str) -> None:
    end = time.monotonic() + strays.TIMEOUT_S
    while text not in ok(state, "logs", job):
        assert time.monotonic() < end, f"never {text!r}"
        time.sleep(0.2)
