"""The description of a lab, as `lab.yaml` of its folder states it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from windlass.labs.errors import LabError

NEEDS = ("torch", "cluster", "real-nodes", "slurm", "mpi", "jupyter", "kfp", "kueue", "grpc")
"""Everything that a lab may need beyond Python: `cluster` is an API server with controllers and fake nodes."""
CLUSTER_NEEDS = frozenset({"cluster", "real-nodes", "kueue"})
"""The needs that `windlass lab cluster up` meets."""
MODULES = "ABCDEFGHIJKL"
DAYS = (1, 2)


@dataclass(frozen=True, slots=True)
class LabFacts:
    """The fields of `lab.yaml`."""

    id: str
    title: str
    module: str
    goal: str
    minutes: int
    needs: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    gpu: str = ""
    """The difference on a machine with real GPUs."""
    days: tuple[int, ...] = ()
    """The paths that contain the lab: of one day (1), of two days (2)."""


@dataclass(frozen=True, slots=True)
class LabDescription:
    """A lab of the catalog: its facts and its folder."""

    facts: LabFacts
    folder: Path

    @property
    def needs_cluster(self) -> bool:
        """Whether the lab runs on the cluster of the workshop."""
        return not CLUSTER_NEEDS.isdisjoint(self.facts.needs)

    @property
    def text(self) -> str:
        """The text that teaches: goal and steps, in Markdown."""
        return (self.folder / "text.md").read_text(encoding="utf-8")

    def scripts(self, kind: str) -> list[Path]:
        """Returns the scripts of a kind: `solution`, `ways` or `mistakes`, by name."""
        return sorted((self.folder / kind).glob("*.sh"))


def read_description(folder: Path) -> LabDescription:
    """Reads `lab.yaml` of a lab's folder. Raises LabError with the field that is wrong."""
    path = folder / "lab.yaml"
    try:
        facts = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), LabFacts)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise LabError(f"{path} describes no lab: {error}\ncompare it with lab.yaml of another lab") from None
    if problem := _problem(facts, folder):
        raise LabError(f"{path}: {problem}")
    return LabDescription(facts, folder)


def _problem(facts: LabFacts, folder: Path) -> str:
    """Returns what contradicts the format; "" if nothing does."""
    if not folder.name.startswith(f"{facts.id}_"):
        return f"the folder of the lab {facts.id!r} is named {facts.id}_<name>"
    if facts.module not in MODULES or not facts.id.startswith(facts.module.lower()):
        return f"module is the letter of the id, one of {MODULES}"
    if unknown := [need for need in facts.needs if need not in NEEDS]:
        return f"needs has {unknown[0]!r}; known: {', '.join(NEEDS)}"
    if unknown_days := [day for day in facts.days if day not in DAYS]:
        return f"days has {unknown_days[0]}; known: 1, 2"
    return "" if facts.minutes > 0 else "minutes is at least 1"
