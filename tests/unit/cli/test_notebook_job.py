"""The job of a notebook on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.cli.errors import UsageError
from windlass.cli.notebook_job import notebook_submission
from windlass.jobs.description.options import RunOptions
from windlass.jupyter.folder import NotebookFolder


def submitted(folder: Path, options: RunOptions):
    return notebook_submission(options, NotebookFolder(folder / "notebooks"), folder, idle_ms=60_000)


def test_a_notebook_with_two_gpus_is_one_server(tmp_path):
    (role,) = submitted(tmp_path, RunOptions(name="lab", gpus=2)).job.roles
    assert (role.replicas, role.procs, role.resources["gpu"]) == (1, 1, 2)


def test_the_folder_of_the_files_is_relative_to_the_current_one(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path)
    job = submitted(tmp_path, RunOptions(name="lab", workdir="files")).job
    assert job.workdir == str(tmp_path / "files")
    assert job.roles[0].command[-2:] == ("--workspace", str(tmp_path / "files"))


@pytest.mark.parametrize("own", ["", "notebooks"])
def test_a_folder_of_the_state_holds_no_files_of_a_notebook(tmp_path: Path, own: str):
    with pytest.raises(UsageError, match="holds the state of the daemon"):
        submitted(tmp_path, RunOptions(name="lab", workdir=str(tmp_path / own)))
