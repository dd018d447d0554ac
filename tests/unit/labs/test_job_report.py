"""A report counts only where the output of its job has the digest of the file."""

import hashlib
from dataclasses import dataclass

import pytest

from windlass.labs.evidence.lab import Lab
from windlass.labs.lab_folders import LabFolders

TEXT = '{"loss": 0.5}'


@dataclass(frozen=True)
class Report:
    loss: float


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A lab with the report of the job train-1, whose rank 0 printed the digest of that file."""
    made = Lab("c3", LabFolders(tmp_path))
    folder = made.folders.learner("c3") / "runs"
    folder.mkdir(parents=True)
    (folder / "train-1.json").write_text(TEXT)
    digest = hashlib.sha256(TEXT.encode()).hexdigest()[:16]
    printed = {"train-1": [f"wrote runs/train-1.json {digest}"]}
    monkeypatch.setattr(
        "windlass.labs.evidence.job_records.read_output", lambda _state, job, _rank, _generation: printed.get(job, [])
    )
    return made


def test_the_report_of_a_job_is_read(lab):
    assert lab.report("train-1", Report) == Report(0.5)


def test_a_file_that_was_changed_is_no_report(lab):
    (lab.folders.learner("c3") / "runs/train-1.json").write_text('{"loss": 0.1}')
    assert lab.report("train-1", Report) is None


def test_a_file_of_another_job_is_no_report(lab):
    (lab.folders.learner("c3") / "runs/train-2.json").write_text(TEXT)
    assert lab.report("train-2", Report) is None


def test_a_job_without_a_file_has_no_report(lab):
    assert lab.report("train-3", Report) is None
