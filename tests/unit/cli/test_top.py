"""`windlass top`: progress of running jobs, and of the ranks of one job."""

import time

import pytest

from windlass.cli.errors import UsageError
from windlass.cli.terminal.output import Format, show
from windlass.cli.verbs import top
from windlass.server.progress import summarize_progress

VALUES = {"loss": 1.5, "steps": 100.0, "step_ms": 200.0, "samples_per_second": 64.0, "rank_busy_ms": 150.0}
RANK = {"rank": 0, "node": "n1", "pid": 7, "printed_at": None}
BEATING = {
    **RANK,
    "step": 40,
    "phase": "forward",
    "at": time.time() * 1000 + 1e6,
    "values": VALUES,
    "reported_step": 40,
}


class FakeSource:
    """A source of records."""

    def jobs(self, **filters):
        assert filters["progress"]
        line = {"phase": "Running", "reason": "", "message": "", "ranks": 1, "nodes": ["n1"], "user": "ada"}
        return [
            {**line, "id": "a-1", "progress": summarize_progress([BEATING])},
            {**line, "id": "b-2", "progress": None},
        ]

    def job(self, name):
        return {"members": [{"id": "a_0"}]} if name == "a" else {"progress": summarize_progress([BEATING])}


def test_top_lists_running_jobs(capsys):
    show(top._JOBS, top._jobs(FakeSource()), Format.TABLE, paint=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "JOB STATE RANKS STEP LOSS STEP TIME SAMPLES/S LEFT LAST SEEN SLOW RANKS"
    assert first.split()[:9] == ["a-1", "Running", "1", "40/100", "1.5", "200", "ms", "64.0", "12.0"]
    assert second.split()[:4] == ["b-2", "Running", "1", "-"]


def test_top_of_one_job_lists_its_ranks(capsys):
    show(top._RANKS, top._ranks(FakeSource(), "b"), Format.WIDE, paint=False)
    line = capsys.readouterr().out.splitlines()[1].split()
    assert (line[:4], line[-2:]) == (["0", "n1", "40", "forward"], ["7", "-"])


def test_top_refuses_an_array():
    with pytest.raises(UsageError, match="a_0"):
        top._ranks(FakeSource(), "a")
