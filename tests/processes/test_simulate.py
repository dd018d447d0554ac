"""`windlass simulate` as a program: worker processes, interrupts, and reproducible output."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import terminal

import strays
from windlass.backends.simulator.study.parallel_runs import Advance, run_in_parallel

WINDLASS = Path(sys.executable).with_name("windlass")
DRAWN = ("--synthetic", "jobs=60 load=1.1", "--cluster", "4x8", "--policy", "fifo,sjf", "--seeds", "2")
ENDLESS = ("--synthetic", "jobs=20000 load=1.5", "--cluster", "64x8", "--policy", "fifo,sjf,easy", "-j", "2")


def simulate(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([WINDLASS, "simulate", *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_equal_seeds_give_equal_bytes_at_any_concurrency(tmp_path: Path):
    written = []
    for processes in ("1", "3"):
        folder = tmp_path / processes
        folder.mkdir()
        ran = simulate(*DRAWN, "-j", processes, "--report", "out", cwd=folder)
        assert ran.returncode == 0, ran.stderr
        files = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
        written.append((ran.stdout, files))
    assert written[0] == written[1]
    assert set(written[0][1]) == {"index.html", "report.json"}


def test_an_error_in_a_worker_process_is_reported(tmp_path: Path):
    (tmp_path / "big.jsonl").write_text('{"id": "big", "submit": 0, "duration": 1000, "gpus": 64}\n')
    ran = simulate("big.jsonl", "--cluster", "2x8", "--policy", "fifo,sjf", "-j", "2", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("windlass: big.jsonl, row 1: job big asks for 64 GPUs")


@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)])
def test_an_interrupt_ends_all_runs_and_writes_nothing(tmp_path: Path, number: int, to_all: bool):
    command = [WINDLASS, "simulate", *ENDLESS, "--report", "out"]
    program = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until = time.monotonic() + strays.TIMEOUT_S
        while len(children_of(program.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        runs = children_of(program.pid)
        assert len(runs) == 2
        (os.killpg if to_all else os.kill)(program.pid, number)
        _, output = program.communicate(timeout=strays.TIMEOUT_S)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    assert program.returncode == 130
    assert output == "windlass: interrupted; nothing was written\n"
    assert not [pid for pid in runs if alive(pid)]
    assert not (tmp_path / "out").exists()


class SignalsAtItsEnd:
    """An object whose destructor is interrupted: an exception that a signal handler raises there is lost."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_within_a_destructor_ends_the_runs():
    objects, others = [SignalsAtItsEnd()], children_of(os.getpid())
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel([endless, endless], 2, lambda _done, _ended: objects.clear())
    assert set(children_of(os.getpid())) <= set(others)
    assert signal.getsignal(signal.SIGINT) is handler


def endless(advance: Advance) -> None:
    for count in itertools.count():
        time.sleep(0.02)
        advance(count)


def test_a_terminal_shows_the_progress_of_a_long_simulation(state: Path, tmp_path: Path):
    words = ("simulate", *ENDLESS, "--report", str(tmp_path / "out"))
    with terminal(state, *words) as shown:
        shown.expect(r"simulating .*\d+%.*[0-2] of 3")
        shown.ctrl_c()
        assert shown.wait() == 130
        assert "interrupted; nothing was written" in shown.seen


def alive(pid: int) -> bool:
    file = Path(f"/proc/{pid}/stat")
    return file.exists() and file.read_text().rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []
