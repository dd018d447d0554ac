from __future__ import annotations

from pathlib import Path

import pytest

import windlass
from windlass.client.job_output import OutputSelection, open_output


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


@windlass.job
def train(epochs: int) -> int:
    return epochs


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (train, r"train is a function without arguments\nsubmit a call: train\.bind\(…\)"),
        (print, r"print is no job\ndecorate the function with @windlass\.job"),
        (None, "a NoneType describes no job"),
    ],
)
def test_a_value_that_describes_no_job_is_refused(tmp_path: Path, job: object, why: str):
    with windlass.Client("local", state=tmp_path) as client, pytest.raises(windlass.InvalidRequestError, match=why):
        client.submit(job)  # type: ignore[call-overload]


def test_an_unknown_phase_and_other_types_are_refused(tmp_path: Path):
    with windlass.Client("local", state=tmp_path) as client:
        with pytest.raises(windlass.InvalidRequestError, match="no phase is named 'cancelledd'\nphases: Created, "):
            client.list(phase="Running,cancelledd")
        with pytest.raises(windlass.InvalidRequestError, match="ranks 1 is no list\nwrite ranks="):
            client._call(open_output, "a-1", OutputSelection(ranks=1))  # type: ignore[arg-type]
        with pytest.raises(windlass.InvalidRequestError, match="the timeout '5s' is no number"):
            client.wait("a-1", timeout="5s")  # type: ignore[arg-type]


def test_a_schedule_needs_times_and_a_target_that_keeps_it(tmp_path: Path):
    with (
        windlass.Client("slurm") as client,
        pytest.raises(windlass.InvalidRequestError, match="Slurm has no schedules"),
    ):
        client.schedules()
    with windlass.Client("local", state=tmp_path) as client, pytest.raises(windlass.NoDaemonError):
        client.create_schedule("true", "@daily")
