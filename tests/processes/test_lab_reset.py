"""A reset of a lab ends its daemon, its jobs and scripts of its folder, and nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_lab import small_lab

from windlass.labs.evidence.lab import Lab
from windlass.labs.lab_environment import lab_variables
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_reset import reset_lab
from windlass.labs.lab_start import start_lab

WINDLASS = [sys.executable, "-c", "import sys; from windlass.cli.entry import main; sys.exit(main())"]


@pytest.fixture
def started(tmp_path):
    lab, folders = small_lab(tmp_path / "catalog"), LabFolders(tmp_path / "labs")
    start_lab(lab, folders, print)
    yield lab, folders
    reset_lab(lab, folders, print)


def test_jobs_are_evidence_and_end_with_the_lab(started):
    lab, folders = started
    environment = {**os.environ, **lab_variables(lab, folders)}
    folder = folders.learner("a7")

    def windlass(*words):
        subprocess.run([*WINDLASS, *words], env=environment, cwd=folder, check=True, capture_output=True)

    view = Lab("a7", folders)
    assert view.jobs() == []
    windlass("run", "--name", "first", "--local-gpus", "2", "-G", "2", "--", "sh", "-c", "echo rank $RANK")
    [first] = view.jobs()
    assert (first.id, first.succeeded, first.ranks, first.generation) == ("first-1", True, 2, 1)
    assert [(start.rank, start.code) for start in first.starts] == [(0, 0), (1, 0)]
    assert sorted(view.logs(first.id)) == ["rank 0", "rank 1"]
    assert view.logs(first.id, rank=1) == ["rank 1"]
    assert view.metrics(first.id) == {}
    windlass("up", "-d")
    windlass("submit", "--name", "endless", "--", "sleep", "600")
    (folder / "serve.sh").write_text("sleep 601; true\n")
    script = subprocess.Popen(["sh", "serve.sh"], env=environment, cwd=folder)
    follower = subprocess.Popen(["tail", "-f", "serve.sh"], env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(view.jobs()) < 2 or view.jobs()[1].phase != "Running":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert ("sleep", "600") in [process.command for process in view.processes()]
    ended = reset_lab(lab, folders, print)
    assert ended >= 5  # the daemon, its supervisor, the rank, the script, and its child
    assert script.wait(10) < 0
    assert follower.poll() is None
    follower.kill()
    follower.wait()
    assert list(view.processes()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folders.root) in _text(path)]


def _text(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
