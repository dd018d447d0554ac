"""A rank that is still joining when another one has been refused."""

import pytest

from windlass import train
from windlass.train import process_group
from windlass.train.health import failure_report

_GONE = RuntimeError("Gloo connectFullMesh failed with [...] Connection closed by peer [127.0.0.1]:4711")


def joining(monkeypatch, error, words):
    def join():
        raise error

    monkeypatch.setattr(process_group, "join", join)
    monkeypatch.setattr(failure_report, "read_peer_report", lambda: words)


def test_a_joining_rank_exits_silently_with_the_code_of_the_refusal(monkeypatch, capsys):
    joining(monkeypatch, _GONE, failure_report.FailureReport(0, 85, "the dataset is empty"))
    with pytest.raises(SystemExit) as left:
        train.init()
    assert left.value.code == 85
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [(_GONE, None), (RuntimeError("out of luck"), failure_report.FailureReport(0, 85, "the dataset is empty"))],
)
def test_a_joining_rank_raises_an_error_that_no_other_rank_has_reported(monkeypatch, error, words):
    joining(monkeypatch, error, words)
    with pytest.raises(RuntimeError) as raised:
        train.init()
    assert raised.value is error
