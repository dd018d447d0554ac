"""Takes screenshots of every page of the dashboard, of a daemon of its own with jobs of all kinds.

    python tools/dashboard_screenshots.py docs/images/dashboard [--size 1280x800]

Needs Debian's chromium. The images have a palette of 128 colours, so that they stay small in the repository.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

WINDLASS = Path(sys.executable).with_name("windlass")
PAGES = {
    "overview": "/",
    "queue": "/queue?why=pretrain-6",
    "phone-queue": "/queue",
    "nodes": "/nodes?node=a1",
    "share": "/share",
    "history": "/history",
    "simulator": "/simulator",
    "job": "/jobs/lesson-1",
    "waiting-job": "/jobs/pretrain-6",
    "failed-job": "/jobs/overflow-2",
}
CLUSTER = """
topology: [block, rack]
nodes:
- {name: a, count: 4, gpus: 4, gpu_type: H100, place: {block: b1, rack: r1}}
- {name: b, count: 4, gpus: 4, gpu_type: A100, place: {block: b1, rack: r2}}
queues:
- {name: default, quota: {gpu: 0}}
- {name: lab}
- {name: vision, parent: lab, quota: {gpu: 16}}
- {name: speech, parent: lab, quota: {gpu: 16}}
policy: {min_runtime: 0s}
"""
TRAINING = """
import os
import time
import torch
from windlass import train

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(8, 1), optimizer=torch.optim.SGD, lr=0.01)
    dataset = torch.utils.data.TensorDataset(torch.ones(65536, 8), torch.zeros(65536, 1))
    data = run.data(dataset, global_batch=8)
    checkpoints = run.checkpoint(state=run.state(model, optimizer, data), every="50 steps", keep=4)
    for batch in checkpoints.resume().steps(400):
        time.sleep(0.08 if os.environ["RANK"] == "2" else 0.05)
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
"""
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 3.41 GiB free."
OVERFLOW = f"import sys; sys.exit('{ERROR}')"
COLOURS = 128
PHONE = (390, 844)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=read_size, default=(1280, 800), metavar="WIDTHxHEIGHT")
    parser.add_argument("--only", default="", help="names of pages, separated by commas")
    arguments = parser.parse_args()
    chosen = {name: path for name, path in PAGES.items() if not arguments.only or name in arguments.only.split(",")}
    with (
        tempfile.TemporaryDirectory(prefix="windlass-pages-") as folder,
        running_cluster(Path(folder)),
        chromium() as it,
    ):
        for theme in ("light", "dark"):
            take_all(it, chosen, arguments.folder, theme, arguments.size)


def read_size(text: str) -> tuple[int, int]:
    width, height = map(int, text.split("x"))
    return width, height


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's chromium, headless."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=sandbox)
        yield browser
        browser.close()


@contextmanager
def running_cluster(folder: Path) -> Iterator[None]:
    """A daemon with jobs that run, wait, have succeeded, recovered and failed; it ends with the block."""
    os.environ["WINDLASS_STATE"] = str(folder / "state")
    os.environ["WINDLASS_CHECKPOINTS"] = str(folder / "kept")
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "train.py").write_text(TRAINING)
    windlass("up", "-d", "--cluster", str(folder / "cluster.yaml"))
    try:
        submit_jobs(folder)
        yield
    finally:
        windlass("down", "--yes")


def submit_jobs(folder: Path) -> None:
    """Submits the jobs. The first is trained over the loss of a rank before the others start."""
    python = sys.executable
    lesson = ("--name", "lesson", "--queue", "vision", "-N", "2", "-G", "2")
    windlass("submit", *lesson, "--", python, str(folder / "train.py"))
    lose_rank("lesson", after_step=120)
    windlass("submit", "--name", "overflow", "--queue", "speech", "-G", "1", "--", python, "-c", OVERFLOW)
    for name, queue, size in (
        ("finetune", "vision", ("-N", "3", "-G", "4", "--time", "2h")),
        ("asr", "speech", ("-N", "2", "-G", "4", "--time", "5h")),
        ("notebook", "speech", ("-N", "1", "-G", "2")),
        ("pretrain", "speech", ("-N", "4", "-G", "4", "--time", "8h")),
        ("sweep", "vision", ("-N", "4", "-G", "3", "--time", "3h")),
        ("eval", "vision", ("-N", "1", "-G", "1", "--time", "20m")),
        ("ablation", "speech", ("-N", "6", "-G", "4", "--time", "1h")),
    ):
        windlass("submit", "--name", name, "--queue", queue, *size, "--", "sleep", "600")
    windlass("reserve", "rack-works", "--nodes", "b3,b4", "--from", "3h", "--for", "2h", "--maintenance")
    wait_for(lambda: status("lesson")["phase"] == "Succeeded")
    time.sleep(6)  # telemetry is recorded every few seconds


def lose_rank(job: str, after_step: int) -> None:
    """Kills rank 1 of a job once it has made so many steps."""
    wait_for(lambda: ((status(job).get("progress") or {}).get("step") or 0) >= after_step)
    ranks = status(job)["progress"]["ranks"]
    os.kill(next(rank["pid"] for rank in ranks if rank["rank"] == 1), signal.SIGKILL)


def take_all(browser: Browser, pages: dict[str, str], folder: Path, theme: str, size: tuple[int, int]) -> None:
    """One image of each page in one theme. Pages with `phone-` in their name have the size of one."""
    folder.mkdir(parents=True, exist_ok=True)
    link = windlass("ui", "--no-browser", "--port", "0", "--allow-actions").strip()
    context = browser.new_context(color_scheme=theme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(link)
    for name, path in pages.items():
        width, height = PHONE if name.startswith("phone-") else size
        page.set_viewport_size({"width": width, "height": height})
        page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector("main[data-ready]")
        if name == "simulator":
            page.get_by_label("Policies").fill("cluster,fifo")
            page.get_by_role("button", name="Start").click()
            page.get_by_role("region", name="Figures by policy").wait_for(timeout=60_000)
        page.get_by_text("is read for its cause").wait_for(state="hidden", timeout=60_000)
        page.wait_for_timeout(1_500)
        take(page, folder / f"{name}-{theme}.png")
    context.close()


def take(page: Page, file: Path) -> None:
    """A screenshot of the whole page with a palette."""
    page.screenshot(path=file, full_page=True)
    with Image.open(file) as image:
        image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, optimize=True
        )


def status(job: str) -> dict[str, Any]:
    return json.loads(windlass("status", job, "-o", "json"))


def wait_for(is_reached: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_reached():
        if time.monotonic() > deadline:
            raise TimeoutError("the cluster did not become ready for screenshots")
        time.sleep(0.5)


def windlass(*words: str) -> str:
    return subprocess.run([WINDLASS, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
