"""The definition of Volcano's Jobs, generated from its Go types: the module volcano.sh/apis contains no definitions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from windlass.controlplane.build import place_of
from windlass.controlplane.programs import MODULES, PROGRAMS

_TYPES = "volcano.sh/apis/pkg/apis/batch/v1alpha1"


def job_definition(folder: Path) -> dict[str, Any]:
    """The CustomResourceDefinition, made in a folder. Raises subprocess.CalledProcessError."""
    generator = place_of(PROGRAMS["controller-gen"])
    options = "crd:maxDescLen=0,generateEmbeddedObjectMeta=true"
    command = [generator, options, f"paths={_TYPES}", f"output:crd:dir={folder}"]
    env = {**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    subprocess.run(command, cwd=MODULES / "volcano", env=env, check=True, capture_output=True)
    found: dict[str, Any] = yaml.safe_load((folder / "batch.volcano.sh_jobs.yaml").read_text())
    return found
