"""The machine that a lab needs: folders of its own, and for labs on a cluster the cluster of the workshop."""

import pytest

from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_reset import reset_lab


@pytest.fixture
def machine_of(tmp_path, monkeypatch):
    """Returns the folders of the workshop for a lab; at the end the lab is reset, and left nothing behind."""
    folders = LabFolders(tmp_path / "labs")
    used = []
    for name in ("WINDLASS_ON", "WINDLASS_STATE", "WINDLASS_LAB", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)

    def make(lab):
        used.append(lab)
        return folders

    yield make
    for lab in used:
        reset_lab(lab, folders, print)
        assert not folders.learner(lab.facts.id).exists()
