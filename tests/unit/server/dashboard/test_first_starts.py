"""Changes of the overview: a job that has ended holds no nodes, and its history names those of its first start."""

import asyncio
from typing import Any

from windlass.backends.port import BackendError, Transition
from windlass.server.dashboard.first_starts import FirstStarts

HISTORY = [
    Transition("job-1", 1, "Submitted", "", "Created", ""),
    Transition("job-1", 2, "Placed", "Queued", "Admitted", "Admitted: starting on a1, a2"),
    Transition("job-1", 9, "Placed", "Queued", "Admitted", "Admitted: starting on b1"),
]


def started(job: str, message: str = "") -> dict[str, Any]:
    return {"job": job, "change": "started", "message": message}


def test_a_start_without_nodes_has_those_of_the_history_which_is_read_once() -> None:
    starts, asked = FirstStarts(), []

    async def read(job_id: str) -> list[Transition]:
        asked.append(job_id)
        return HISTORY

    changes = [started("job-1"), started("job-2", "c1"), {"job": "job-1", "change": "failed", "message": ""}]
    for _ in range(2):
        found = asyncio.run(starts.name_nodes(changes, read))
        assert [each["message"] for each in found] == ["a1, a2", "c1", ""]
    assert asked == ["job-1"]


def test_one_answer_reads_the_history_of_few_jobs() -> None:
    starts, asked = FirstStarts(), []

    async def read(job_id: str) -> list[Transition]:
        asked.append(job_id)
        return HISTORY

    changes = [started(f"job-{number}") for number in range(50)]
    found = asyncio.run(starts.name_nodes(changes, read))
    assert len(asked) == 20
    assert [each["message"] for each in found] == ["a1, a2"] * 20 + [""] * 30


def test_a_history_that_does_not_answer_leaves_the_nodes_out() -> None:
    async def read(_: str) -> list[Transition]:
        raise BackendError("no answer")

    assert asyncio.run(FirstStarts().name_nodes([started("job-1")], read)) == [started("job-1")]
