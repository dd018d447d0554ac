"""Lines about the training progress of a job."""

from windlass.cli.training_progress import progress_lines
from windlass.server.progress import summarize_progress

VALUES = {"loss": 1.5, "steps": 100.0, "step_ms": 200.0, "samples_per_second": 64.0, "forward_ms": 120.0}


def lines(ranks, phase="Running", **status):
    job = {"phase": phase, "status": status, "progress": summarize_progress(ranks)}
    return list(progress_lines(job, now=12_500))


def test_progress_with_heartbeats():
    beating = {"step": 41, "phase": "forward", "at": 12_100, "values": VALUES, "reported_step": 40}
    assert lines([{"rank": 3, "node": "n1", "pid": 7, "printed_at": 1, **beating}]) == [
        "step 41/100, loss 1.5, 200 ms per step (forward 120, outside 80), 64.0 samples/s, 11.8 s left",
        "last heartbeat 400 ms ago; furthest behind is rank 3: forward of step 41 for 400 ms",
    ]


def test_progress_without_heartbeats_shows_the_last_output():
    assert lines([{"rank": 0, "node": "n1", "pid": 7, "printed_at": 10_000}]) == [
        "no heartbeats (1 rank); last output 2.5 s ago"
    ]


def test_progress_after_the_end_shows_recoveries():
    assert lines([], phase="Succeeded", recoveries=2) == ["recovered in place 2×"]


def test_progress_shows_restarts_of_containers_in_place():
    assert lines([], container_restarts=5) == ["kubelets have restarted its containers 5 times"]
    assert lines([], container_restarts=1) == ["kubelets have restarted its containers 1 time"]
