"""Files of a learner are hostile until checked: links, pipes, sizes and contents."""

import os
from dataclasses import dataclass

import pytest

from windlass.labs.evidence import lab_files
from windlass.labs.evidence.findings import EvidenceError
from windlass.labs.evidence.lab_files import file_names, read_file, read_json, read_record


@dataclass(frozen=True)
class Loss:
    step: int
    loss: float


def refusal_of(read, *words):
    with pytest.raises(EvidenceError) as refused:
        read(*words)
    return refused.value.finding


def test_a_missing_file_is_none_and_a_folder_in_its_place_a_finding(tmp_path):
    (tmp_path / "folder").mkdir()
    assert read_file(tmp_path, "missing/too.txt") is None
    assert refusal_of(read_file, tmp_path, "folder").fix.endswith("rm folder")


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_a_link_and_a_pipe_are_not_read(tmp_path, make):
    make(tmp_path / "runs.json")
    assert "runs.json cannot be read" in refusal_of(read_file, tmp_path, "runs.json").what


def test_a_folder_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "runs").symlink_to("/etc")
    assert refusal_of(read_file, tmp_path, "runs/passwd").what == "runs is a link"
    assert file_names(tmp_path, "runs/*") == []


def test_a_large_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_files, "MAX_BYTES", 10)
    (tmp_path / "log").write_text("x" * 11)
    assert "log has more than" in refusal_of(read_file, tmp_path, "log").what


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "NaN{"])
def test_a_file_that_is_no_json_is_a_finding(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    assert refusal_of(read_json, tmp_path, "run.json").what.startswith("run.json is no JSON")


def test_a_record_is_checked_field_by_field(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"step": 3, "loss": 0.5, "more": true}')
    assert read_record(tmp_path, "run.json", Loss) == Loss(3, 0.5)
    path.write_text('{"step": "3", "loss": 0.5}')
    assert refusal_of(read_record, tmp_path, "run.json", Loss).what == (
        "run.json is not what its program writes: Expected `int`, got `str` - at `$.step`"
    )


def test_a_check_cannot_name_a_file_outside_of_the_folder(tmp_path):
    for name in ("../progress.json", "/etc/passwd"):
        with pytest.raises(ValueError, match="is not below the lab's folder"):
            read_file(tmp_path, name)
