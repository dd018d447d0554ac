"""The folders of the workshop on this machine: those of the learner, and the state beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_VARIABLE = "WINDLASS_LABS"
"""Names the root; default: `~/windlass-labs`."""


@dataclass(frozen=True, slots=True)
class LabFolders:
    """The root of the workshop, an absolute path, and the places below it."""

    root: Path

    @property
    def hidden(self) -> Path:
        """State of the workshop, which no learner edits."""
        return self.root / ".workshop"

    @property
    def progress(self) -> Path:
        """The file with the progress."""
        return self.hidden / "progress.json"

    @property
    def cluster(self) -> Path:
        """Everything of the cluster that `windlass lab cluster up` starts."""
        return self.hidden / "cluster"

    @property
    def cluster_kubeconfig(self) -> Path:
        """The administrator's kubeconfig of that cluster."""
        return self.cluster / "kubeconfig"

    @property
    def cluster_programs(self) -> Path:
        """Folder with kubectl and other programs of that cluster."""
        return self.cluster / "bin"

    def learner(self, lab_id: str) -> Path:
        """Returns the folder in which the learner works."""
        return self.root / lab_id

    def own(self, lab_id: str) -> Path:
        """Returns the folder with everything else of one lab; it exists from the start to the reset."""
        return self.hidden / lab_id

    def state(self, lab_id: str) -> Path:
        """Returns Windlass's state folder of one lab: its jobs are apart from those of the learner."""
        return self.own(lab_id) / "state"

    def kubeconfig(self, lab_id: str) -> Path:
        """Returns the kubeconfig of one lab, with its namespace as the default."""
        return self.own(lab_id) / "kubeconfig"

    def ready_mark(self, lab_id: str) -> Path:
        """Returns the file that the end of a start writes."""
        return self.own(lab_id) / "ready"

    def is_started(self, lab_id: str) -> bool:
        """Whether the lab was started to the end, and not reset since."""
        return self.ready_mark(lab_id).is_file()


def lab_folders(environment: Mapping[str, str] = os.environ) -> LabFolders:
    """Returns the folders below `$WINDLASS_LABS`, else `~/windlass-labs`."""
    root = environment.get(ROOT_VARIABLE) or "~/windlass-labs"
    return LabFolders(Path(root).expanduser().absolute())


def namespace_of(lab_id: str) -> str:
    """Returns the namespace of a lab on the cluster."""
    return f"lab-{lab_id}"
