"""Sources of earlier commits, for tests of upgrades and rollbacks. A clone without such a commit skips them."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT_CHECKSUMS = "badd4d52e867c59eb946d39a183fc2f327662b4f"
"""The last commit before state had checksums."""
EARLIER = ("HEAD~1", WITHOUT_CHECKSUMS)


def source_of(commit: str, folder: Path) -> Path:
    """Unpacks `src` of a commit. Skips the test where the clone does not have it."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this clone has no {commit}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
