"""Questions of a newcomer, answered from the overview within two clicks: waiting, slowness, lost work, shares."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from terminal import ok

import strays

MOST_CLICKS = 2
CLUSTER = """
nodes:
- {name: n, count: 2, gpus: 4, cpus: 8, gpu_type: H100}
queues:
- {name: default, quota: {gpu: 0}}
- {name: lab}
- {name: vision, parent: lab, quota: {gpu: 4}}
- {name: speech, parent: lab, quota: {gpu: 4}}
policy: {min_runtime: 10h}
"""
TRAINING = """
import os
import sys
import time
import torch
from windlass import train

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(8, 1), optimizer=torch.optim.SGD, lr=0.01)
    dataset = torch.utils.data.TensorDataset(torch.ones(65536, 8), torch.zeros(65536, 1))
    data = run.data(dataset, global_batch=4)
    checkpoints = run.checkpoint(state=run.state(model, optimizer, data), every="20 steps")
    for number, batch in enumerate(checkpoints.resume().steps(10_000)):
        time.sleep(0.3 if os.environ["RANK"] == "2" else 0.1)
        if sys.argv[1:] and number == int(sys.argv[1]):
            sys.exit("the shard 7 of the data is damaged")
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A daemon with a job that waits for nodes, one with a slow rank, one that failed between two checkpoints."""
    folder = tmp_path_factory.mktemp("questions")
    state = folder / "state"
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "train.py").write_text(TRAINING)
    ok(state, "up", "-d", "--cluster", str(folder / "cluster.yaml"))
    train = ("--queue", "vision", "--cpus", "0", "--", sys.executable, str(folder / "train.py"))
    ok(state, "submit", "--name", "damaged", "-N", "2", "--restarts", "0", *train, "50")
    ok(state, "submit", "--name", "uneven", "-N", "4", *train)
    for name, queue, size, hours in (("whole", "vision", 4, 1), ("half", "vision", 2, 3), ("patient", "speech", 4, 1)):
        words = ("--name", name, "--queue", queue, "-G", str(size), "--procs", "1", "--time", f"{hours}h")
        ok(state, "submit", *words, "--", "sleep", "3600")
    yield state
    ok(state, "down", "--yes")
    strays.assert_none_left([state])


class Newcomer:
    """A signed-in reader on the overview, who counts clicks. `browse`: opens a context."""

    def __init__(self, browser: Any, state: Path) -> None:
        link = ok(state, "ui", "--no-browser", "--port", "0").strip()
        self.context = browser.new_context(viewport={"width": 1280, "height": 800})
        self.page = self.context.new_page()
        self.base = link.partition("/login")[0]
        self.page.goto(link)
        self.begin()

    def begin(self) -> None:
        self.page.goto(f"{self.base}/")
        self.page.wait_for_selector("main[data-ready]")
        self.clicks = 0

    def click(self, role: str, name: str, within: str = "body") -> None:
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS
        self.page.locator(within).get_by_role(role, name=name).first.click()

    def reads(self, text: str | re.Pattern[str], within: str = "main") -> None:
        self.page.locator(within).get_by_text(text).first.wait_for(timeout=20_000)


@pytest.fixture
def newcomer(browser: Any, daemon: Path) -> Iterator[Newcomer]:
    visitor = Newcomer(browser, daemon)
    yield visitor
    visitor.context.close()


def retried(newcomer: Newcomer, look: Callable[[], None], seconds: float = 60) -> None:
    """Looks again from the overview until the cluster has come so far: ranks import torch first."""
    deadline = time.monotonic() + seconds
    while True:
        newcomer.begin()
        try:
            return look()
        except Exception:
            if time.monotonic() > deadline:
                raise


def test_the_reason_and_the_start_of_a_waiting_job(newcomer: Newcomer):
    newcomer.click("link", "Queue", "nav")
    newcomer.click("button", "Why patient-5 waits")
    newcomer.reads("its cohort lab has 2 of its 8 left", "#why")
    newcomer.reads(re.compile(r"Starts in (59 min|1 h)"), "#why")
    newcomer.reads("whole-3", "#why")
    types = newcomer.page.locator("#why").get_by_label("GPU type").get_by_role("option")
    types.nth(1).wait_for(state="attached")
    assert types.all_inner_texts() == ["as it is (any)", "H100: 2 of 8 free"]
    # of two fields, the wrong one is marked
    newcomer.page.locator("#why [name=nodes]").fill("2")
    newcomer.page.locator("#why [name=time]").fill("abc")
    newcomer.page.locator("#why [name=time][aria-invalid=true]").wait_for()
    newcomer.reads("Time limit expects a duration", "#why")
    assert newcomer.page.locator("[aria-invalid=true]").count() == 1


def test_the_rank_that_slows_a_job_and_its_phase(newcomer: Newcomer):
    def look() -> None:
        newcomer.click("link", "uneven-2", "main")
        text = "others wait for rank 2, which spends time in the script's own code"
        newcomer.page.locator("#slow").get_by_text(text).wait_for(timeout=6_000)

    retried(newcomer, look)


def colours_of_the_map(page: Any, rank: int, ranks: int) -> list[list[int]]:
    """Red, green and blue of cells in the row of a rank, from left to right."""
    draw = """(canvas, [rank, ranks]) => [0.5, 0.7, 0.9].map((x) => [...canvas.getContext("2d").getImageData(
        x * canvas.width, (rank + 0.5) * canvas.height / ranks, 1, 1).data].slice(0, 3))"""
    return list(page.locator("#heat canvas").evaluate(draw, [rank, ranks]))


def test_table_map_and_command_line_name_the_same_slow_rank(newcomer: Newcomer, daemon: Path):
    page = newcomer.page

    def look() -> None:
        newcomer.click("link", "uneven-2", "main")
        page.locator(".finding", has_text="Others wait for rank 2.").wait_for(timeout=6_000)
        page.locator("#heat canvas").wait_for(timeout=6_000)
        assert "slow rank 2: more work per step than others" in ok(daemon, "status", "uneven")
        # 1. ranks without work of their own wait, in the table and in its file for programs
        with page.expect_download() as saved:
            page.locator("#ranks").get_by_role("button", name="CSV").click()
        head, *rows = Path(saved.value.path()).read_text().splitlines()
        assert head == "Rank,Slow,Node,Step,Phase,Last seen,Step time (s),Busy (s),Waits (s),Memory (bytes)"
        cells = [dict(zip(head.split(","), row.split(","), strict=True)) for row in rows]
        assert [row["Rank"] for row in cells if row["Slow"] == "yes"] == ["2"]
        assert [float(row["Busy (s)"]) > 0.25 for row in cells] == [False, False, True, False]
        assert [float(row["Waits (s)"]) > 0.1 for row in cells] == [True, True, False, True]
        # 2. the row of the slow rank is red, and no other
        reds = [red > blue + 40 for rank in range(4) for red, _, blue in colours_of_the_map(page, rank, 4)]
        assert reds == [rank == 2 for rank in range(4) for _ in range(3)]

    retried(newcomer, look)
    # 3. the phases add up to a step
    phases = page.locator("#course figure, #course .chart").filter(has_text="Phases of a step")
    assert "outside" in phases.inner_text()
    slow = ok(daemon, "top", "uneven", "--once").splitlines()
    assert [line.split()[0] for line in slow if "others wait for it" in line] == ["2"]


def test_the_work_lost_by_a_failed_job(newcomer: Newcomer):
    def look() -> None:
        newcomer.click("link", "damaged-1", "main")
        newcomer.page.locator(".state.Failed").wait_for(timeout=6_000)
        newcomer.page.locator(".facts").get_by_text(re.compile(r"\d+ steps?, .* by 1 failure")).wait_for(timeout=6_000)

    retried(newcomer, look)
    newcomer.reads("the shard 7 of the data is damaged")


def test_the_queue_that_uses_more_than_its_share(newcomer: Newcomer):
    newcomer.click("link", "Fair share", "nav")
    newcomer.reads("vision holds 2 gpu more than its fair amount.")
    newcomer.click("link", "vision", "main")
    newcomer.reads("whole-3")
    newcomer.reads("half-4")
