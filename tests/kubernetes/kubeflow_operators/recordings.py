"""The recordings of Kubeflow's operators: the observations of a case by the kind's label and the case's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .kinds import KINDS

FOLDER = Path(__file__).parent / "recorded"
RECORDED: dict[str, dict[str, list[dict[str, Any]]]] = {
    kind.label: json.loads((FOLDER / f"{kind.label}.json").read_text()) for kind in KINDS
}
