"""The environment of TorchX, kfp and Airflow, and a daemon on which their jobs run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pipeline_programs import pipeline_environment, python_path
from terminal import daemon, environment

import strays

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the programs `torchx`, `kfp`, `airflow` and their `python`."""
    return pipeline_environment() / "bin"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state folder of a daemon with two nodes of two slots."""
    folder = tmp_path / "state"
    with daemon(folder, "--local-nodes", "2", "--local-gpus", "2"):
        yield folder
    strays.assert_none_left([folder])


@pytest.fixture
def run(programs: Path, state: Path, tmp_path: Path) -> Program:
    """Runs a program of the environment in the test's folder, with the daemon as its target."""
    home = tmp_path / "home"
    home.mkdir()
    modules = python_path(tmp_path / "metadata")
    variables = {"PYTHONPATH": modules, "HOME": str(home), "AIRFLOW_HOME": str(home / "airflow")}

    def call(program: str, *words: object, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        env = {**environment(state, **variables), **more}
        ran = subprocess.run(
            [programs / program, *words], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert not check or ran.returncode == 0, f"{program} {words}\n{ran.stdout}\n{ran.stderr}"
        return ran

    return call
