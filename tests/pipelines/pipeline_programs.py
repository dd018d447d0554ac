"""An environment with TorchX, kfp and Airflow, whose pins exclude those of this project's own environment.

It is made once for each requirements-pipelines.lock, in ~/.cache/windlass, of locked packages alone. Windlass is this
checkout: its modules and its metadata are on PYTHONPATH.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOCK = ROOT / "requirements-pipelines.lock"
_CACHE = Path.home() / ".cache/windlass/pipelines"
_UV = Path(sys.executable).with_name("uv")


def pipeline_environment() -> Path:
    """The folder of the environment; makes it at the first call."""
    folder = _CACHE / hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            quiet = [_UV, "--quiet", "--no-config"]
            env = {"UV_SYSTEM_CERTS": "1", **os.environ}
            subprocess.run([*quiet, "venv", "--clear", "--python", sys.executable, folder], env=env, check=True)
            install = [*quiet, "pip", "install", "--python", folder / "bin/python", "--require-hashes", "-r", _LOCK]
            subprocess.run(install, env=env, check=True)
            (folder / "complete").touch()
    return folder


def python_path(metadata: Path) -> str:
    """PYTHONPATH with this checkout and, in the folder `metadata`, its metadata with the entry points."""
    [info] = [file for file in importlib.metadata.files("windlass-train") or () if file.name == "entry_points.txt"]
    target = metadata / info.locate().parent.name
    if not target.exists():
        metadata.mkdir(parents=True, exist_ok=True)
        target.symlink_to(info.locate().parent)
    return f"{ROOT / 'src'}{os.pathsep}{metadata}"
