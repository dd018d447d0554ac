"""Trackers of a run: checked before anything is sent, and called without any step waiting."""

import threading

import pytest

from windlass.train.errors import TrainError
from windlass.train.telemetry import tracker_queue, trackers
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


@pytest.fixture
def quick(monkeypatch):
    """Repeats failed calls without a delay worth mentioning."""
    monkeypatch.setattr(tracker_queue, "_FIRST_DELAY_S", 1e-6)
    monkeypatch.setattr(tracker_queue, "_MAX_DELAY_S", 1e-6)


class Failing(Listening):
    """Fails as often as `failures` says, or always for one step."""

    def __init__(self, failures=0, poison=-1, reached=None):
        super().__init__(None, "a")
        self.failures, self.poison, self.reached = failures, poison, reached

    def log(self, values, step):
        if self.failures > 0 or step == self.poison:
            self.failures -= 1
            raise OSError("no route to host")
        super().log(values, step)
        if self.reached and step == 2:
            self.reached.set()


def log_three(tracking):
    for step in range(3):
        tracking.log({"loss": 1.0}, step)


def test_a_tracker_that_fails_for_a_while_receives_all_reports_in_order_and_is_reported_once(quick, capsys):
    reached = threading.Event()
    tracker = Failing(failures=4, reached=reached)
    tracking = TrackerQueue([TrackerSpec("mlflow")], "a", lambda *_: tracker)
    log_three(tracking)
    assert reached.wait(60)
    tracking.close(60)
    assert [step for step, _ in tracker.heard] == [0, 1, 2]
    assert tracker.closed
    assert capsys.readouterr().err == "windlass: mlflow: OSError: no route to host; retrying, training continues\n"


def test_a_tracker_that_cannot_be_opened_is_opened_later(quick, capsys):
    reached, attempts = threading.Event(), []
    tracker = Failing(reached=reached)

    def opened(*_):
        attempts.append(1)
        if len(attempts) < 30:
            raise ConnectionError("refused")
        return tracker

    tracking = TrackerQueue([TrackerSpec("wandb")], "a", opened)
    log_three(tracking)
    assert reached.wait(60)
    tracking.close(60)
    assert len(tracker.heard) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_report_that_is_always_refused_does_not_stop_those_behind_it(quick, capsys):
    reached = threading.Event()
    tracker = Failing(poison=1, reached=reached)
    tracking = TrackerQueue([TrackerSpec("mlflow")], "a", lambda *_: tracker)
    log_three(tracking)
    assert reached.wait(60)
    tracking.close(60)
    assert [step for step, _ in tracker.heard] == [0, 2]
    assert "1 reports were not sent: mlflow has failed: OSError: no route to host" in capsys.readouterr().err


def test_trackers_that_fail_or_hang_do_not_disturb_another(capsys):
    may_go_on = threading.Event()

    class Hanging(Listening):
        def log(self, *_):
            may_go_on.wait()

    made = {"mlflow": Failing(failures=99), "wandb": Hanging(None, "a"), HERE: Listening(None, "a")}
    tracking = TrackerQueue([TrackerSpec(name) for name in made], "a", lambda spec, _: made[spec.name])
    log_three(tracking)
    tracking.close(1)
    may_go_on.set()
    assert len(made[HERE].heard) == 3
    assert made[HERE].closed
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "windlass: mlflow: OSError: no route to host; retrying, training continues"
    assert lines[1] == "windlass: 3 reports were not sent: mlflow has failed: OSError: no route to host"
    assert lines[2].startswith("windlass: 2 reports were not sent: wandb was too slow")
