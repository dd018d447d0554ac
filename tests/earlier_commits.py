"""Sources of earlier commits, for tests of upgrades and rollbacks. A clone without such a commit skips them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT_CHECKSUMS = "badd4d52e867c59eb946d39a183fc2f327662b4f"
"""The last commit before state had checksums."""
EARLIER = ("HEAD~1", WITHOUT_CHECKSUMS)
_PRINT = (
    "import json; from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds;"
    "print(json.dumps(crds([*DEFAULT, POD_GROUPS])))"
)


def source_of(commit: str, folder: Path) -> Path:
    """Unpacks `src` of a commit. Skips the test where the clone does not have it."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this clone has no {commit}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def definitions_of(commit: str, folder: Path) -> dict[str, dict[str, Any]]:
    """The CustomResourceDefinitions of a commit, by name. Skips as `source_of`."""
    environment = {**os.environ, "PYTHONPATH": str(source_of(commit, folder))}
    printed = subprocess.run([sys.executable, "-c", _PRINT], env=environment, capture_output=True, check=True).stdout
    return {each["metadata"]["name"]: each for each in json.loads(printed)}
