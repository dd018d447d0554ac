"""The reason of a job that would run into an advance reservation names it."""

from __future__ import annotations

import pytest

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation

DEMANDS = (Demand("worker", 1, {"gpu": 1}),)


def message(walltime: int | None, kept: Reservation) -> str:
    ledger = Ledger([Node("n1", {"gpu": 4}), Node("n2", {"gpu": 0})], [Queue("default")], reservations=[kept])
    gang = PendingGang("j-1", 1, "default", 0, 0, DEMANDS, shape_of("default", DEMANDS), walltime=walltime)
    ledger.add_pending(gang)
    verdicts = schedule(ledger.snapshot(), 100).verdicts
    return verdicts["j-1"].message if "j-1" in verdicts else ""


@pytest.mark.parametrize(
    ("walltime", "start", "text"),
    [
        (None, 500, "would fit now, but reservation repair will have n1"),
        (600, 500, "would fit now, but reservation repair will have n1"),
        (400, 500, ""),
        (1, 50, "would fit now, but reservation repair has n1"),
    ],
)
def test_a_gang_starts_only_if_it_ends_before_the_reservation_begins(walltime, start, text):
    assert message(walltime, Reservation("repair", ("n1", "n2"), start, 1_000)) == text


def test_named_users_and_queues_may_start():
    assert message(None, Reservation("exam", ("n1",), 50, 1_000, queues=("default",))) == ""
