"""Writes the provenance of a release: which files were built, from which commit, with which packages.

`python tools/write_provenance.py FOLDER` describes every file of the folder in `FOLDER/provenance.intoto.json`, an
in-toto statement (v1) with the predicate "provenance" of SLSA (v1). The variable `BUILDER_ID` names the builder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from windlass import __version__

ROOT = Path(__file__).parent.parent
STATEMENT = "provenance.intoto.json"
_BUILD_TYPE = "https://windlass.dev/build/make-release/v1"


def provenance(folder: Path, commit: str, *, builder: str) -> Mapping[str, object]:
    """Returns the statement about all files of a folder."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != STATEMENT)
    lock = ROOT / "requirements.lock"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": _sha256(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"target": "release", "version": __version__},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": lock.name, "digest": {"sha256": _sha256(lock)}},
                    *_packages(lock.read_text()),
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def _packages(lock: str) -> list[Mapping[str, object]]:
    """Returns the packages of the lock. Their hashes are in the lock, whose own hash is in the statement."""
    return [
        {"uri": f"pkg:pypi/{name}@{version}"}
        for name, version in re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE)
    ]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    folder = Path(sys.argv[1])
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout:
        raise SystemExit("uncommitted changes: a release is built from a commit")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    statement = provenance(
        folder, head.strip(), builder=os.environ.get("BUILDER_ID", "https://windlass.dev/build/local")
    )
    (folder / STATEMENT).write_text(json.dumps(statement, indent=2) + "\n")


if __name__ == "__main__":
    main()
