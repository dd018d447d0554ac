"""tools/install.sh on machines that lack something: one clear line, and nothing is made."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install(project, bin_folder):
    shutil.copytree(ROOT / "tools", project / "tools")
    env = {**os.environ, "PATH": str(bin_folder), "PYTHON": ""}
    command = ["/bin/sh", project / "tools/install.sh", "train"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def fake_python(bin_folder, body):
    bin_folder.mkdir()
    (bin_folder / "dirname").symlink_to(shutil.which("dirname"))
    python = bin_folder / "python3"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)


def test_an_old_python_is_refused_with_the_packages_that_help(tmp_path):
    fake_python(tmp_path / "bin", "exit 1")
    ran = install(tmp_path / "project", tmp_path / "bin")
    assert ran.returncode == 1
    assert "needs Python 3.11 or newer" in ran.stderr
    assert "apt-get install python3.11 python3.11-venv" in ran.stderr


def test_a_python_without_venv_is_told_its_package(tmp_path):
    fake_python(tmp_path / "bin", 'case "$2" in *ensurepip*) exit 1;; *print*) echo python3.11-venv;; esac')
    ran = install(tmp_path / "project", tmp_path / "bin")
    assert ran.returncode == 1
    assert "apt-get install python3.11-venv" in ran.stderr
    assert not (tmp_path / "project/.venv").exists()
