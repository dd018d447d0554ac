from __future__ import annotations

from pathlib import Path

import pytest

import windlass


@pytest.mark.parametrize("text", ["- a\n", "hello\n", "name: a\ncommand: x\n---\n- b\n", "3\n"])
def test_a_job_file_without_fields_is_one_clear_error(tmp_path: Path, text: str):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with windlass.Client("local", state=tmp_path) as client, pytest.raises(windlass.InvalidRequestError) as raised:
        client.submit_all(file, nodes=2)
    assert "a job is a mapping of fields, not" in str(raised.value)


def test_an_empty_job_file_is_named(tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("")
    with (
        windlass.Client("local", state=tmp_path) as client,
        pytest.raises(windlass.InvalidRequestError, match="the file holds no job"),
    ):
        client.submit(file, nodes=2)
