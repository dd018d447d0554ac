import pytest
from small_lab import small_lab

from windlass.labs.lab_folders import LabFolders


@pytest.fixture
def folders(tmp_path):
    return LabFolders(tmp_path / "labs")


@pytest.fixture
def lab(tmp_path):
    return small_lab(tmp_path / "catalog")
