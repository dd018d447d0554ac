"""Trackers of a run: checked before anything is sent, and called without any step waiting."""

import threading

import pytest

from windlass.train.errors import TrainError
from windlass.train.telemetry import trackers
from windlass.train.telemetry.tracker_queue import TrackerQueue
from windlass.train.telemetry.trackers import TrackerSpec, parse_trackers, run_name

HERE = "tensorboard"


class Listening:
    def __init__(self, _: TrackerSpec, name: str) -> None:
        self.heard, self.name, self.closed = [], name, False

    def log(self, values, step):
        self.heard.append((step, values))

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def _all_installed(monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda _: object())


@pytest.mark.parametrize(
    ("message", "env", "found"),
    [
        (None, {}, []),
        ("none", {"WINDLASS_REPORT_TO": "wandb"}, []),
        (None, {"WINDLASS_REPORT_TO": "wandb"}, [TrackerSpec("wandb")]),
        (
            "tensorboard:/logs, mlflow:http://m:5000",
            {},
            [TrackerSpec(HERE, "/logs"), TrackerSpec("mlflow", "http://m:5000")],
        ),
        (["tensorboard", "wandb:mine"], {}, [TrackerSpec(HERE), TrackerSpec("wandb", "mine")]),
    ],
)
def test_trackers_are_those_of_the_script_or_else_of_the_job(message, env, found):
    assert list(parse_trackers(message, env)) == found


def test_an_unknown_tracker_is_refused_with_the_nearest_name():
    with pytest.raises(TrainError, match="report_to: there is no 'tensorbord'; did you mean tensorboard"):
        parse_trackers("tensorbord", {})


def test_a_tracker_that_is_not_installed_is_refused_with_its_package(monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(TrainError, match="report_to='mlflow' needs the package mlflow-skinny: pip install"):
        parse_trackers("mlflow", {})


def test_a_run_has_the_name_of_its_job():
    assert run_name({"WINDLASS_JOB_NAME": "digits-7"}) == "digits-7"


def test_a_tracker_receives_all_reports_before_a_run_ends():
    made = []
    tracking = TrackerQueue([TrackerSpec(HERE)], "digits-7", lambda *given: made.append(Listening(*given)) or made[0])
    for step in range(50):
        tracking.log({"loss": step / 2}, step)
    tracking.close(60)
    assert made[0].heard == [(step, {"loss": step / 2}) for step in range(50)]
    assert (made[0].name, made[0].closed) == ("digits-7", True)


def test_a_hanging_tracker_blocks_no_step_and_lost_reports_are_counted(capsys):
    may_go_on = threading.Event()

    class Hanging(Listening):
        def log(self, *_):
            may_go_on.wait()

    tracking = TrackerQueue([TrackerSpec("wandb")], "a", Hanging)
    for step in range(1500):
        tracking.log({"loss": 1.0}, step)
    tracking.close(0.01)
    may_go_on.set()
    assert "reports were not sent: wandb was too slow" in capsys.readouterr().err


def test_a_failing_tracker_is_reported_once_and_others_continue(capsys):
    made = {}

    class Failing(Listening):
        def log(self, *_):
            raise OSError("no route to host")

    def opened(wanted, name):
        made[wanted.name] = (Failing if wanted.name == "mlflow" else Listening)(wanted, name)
        return made[wanted.name]

    tracking = TrackerQueue([TrackerSpec("mlflow"), TrackerSpec(HERE)], "a", opened)
    for step in range(3):
        tracking.log({"loss": 1.0}, step)
    tracking.close(60)
    assert len(made[HERE].heard) == 3
    assert capsys.readouterr().err == "windlass: mlflow is disabled: OSError: no route to host\n"
