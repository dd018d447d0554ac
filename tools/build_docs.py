"""Builds the documentation into a folder: the working tree at its root, each release in a folder of its tag.

Releases are the tags `v*` of the repository, newest first, built from their own sources. Each page names the version
that it describes and links the others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "WINDLASS_DOCS_VERSIONS"
"""Environment variable for `docs/conf.py`: JSON with name and folder of each version, relative to the built one."""
LATEST = "latest"


def main(out: Path, root: Path = ROOT) -> None:
    """Builds all versions. Raises CalledProcessError if one has a warning."""
    tags = release_tags(root)
    build(root, out, {LATEST: "", **{tag: f"{tag}/" for tag in tags}})
    others = {LATEST: "../", **{tag: f"../{tag}/" for tag in tags}}
    for tag in tags:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", tag], cwd=root, check=True, capture_output=True).stdout
            with tarfile.open(fileobj=BytesIO(archive)) as sources:
                sources.extractall(folder, filter="data")
            build(Path(folder), out / tag, others)


def release_tags(root: Path) -> list[str]:
    """Returns the tags of releases, the newest version first. A pre-release such as v1.0rc1 is none."""
    listed = subprocess.run(["git", "tag", "--list", "v*"], cwd=root, check=True, capture_output=True, text=True).stdout
    tags = [tag for tag in listed.split() if re.fullmatch(r"v\d+(\.\d+)*", tag)]
    return sorted(tags, key=lambda tag: [int(number) for number in tag[1:].split(".")], reverse=True)


def build(sources: Path, out: Path, versions: Mapping[str, str]) -> None:
    """Builds the pages of one source tree with the package of that tree."""
    env = {**os.environ, "PYTHONPATH": str(sources / "src"), VARIABLE: json.dumps(versions)}
    if (sources / "docs/generate.py").exists():
        subprocess.run([sys.executable, sources / "docs/generate.py"], env=env, check=True)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", sources / "docs", out]
    subprocess.run(command, env=env, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
