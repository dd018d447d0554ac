"""The time axis: what runs until when, what is expected to start when, and which job fills a gap."""

from collections.abc import Sequence
from typing import Any

from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import PendingGang, RunningGang, pending_of
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.server.dashboard.audience import Audience
from windlass.server.dashboard.time_axis import axis_rows, shown_rows

HOUR = 3_600_000


def waiting(number: int, replicas: int, hours: int) -> PendingGang:
    job = Job("wait", (Role(replicas=replicas, resources={"gpu": 4}),), walltime=hours * HOUR)
    return pending_of(create_state(f"wait-{number}", number, job, 0))


def cluster(*gangs: PendingGang) -> Snapshot:
    """Three nodes, of which one is held for two hours, and one is reserved from the sixth hour on."""
    works = Reservation("works", ("c",), 6 * HOUR, 8 * HOUR)
    nodes = [Node(name, {"gpu": 4}) for name in ("a", "b", "c")]
    ledger = Ledger(nodes, [Queue("default")], reservations=(works,))
    demands = waiting(1, 1, 1).demands
    ledger.hold(RunningGang("run-1", 1, "default", 0, demands, Placement({"worker": ("a",)}), 0, 2 * HOUR))
    for gang in gangs:
        ledger.add_pending(gang)
    return ledger.snapshot()


def shown(snapshot: Snapshot, order: Sequence[str], now: int) -> dict[str, Any]:
    return shown_rows(axis_rows(snapshot, order, now))


def test_rows_are_reservations_then_running_jobs_then_expected_starts() -> None:
    found = shown(cluster(waiting(2, 3, 2), waiting(3, 1, 1)), ("wait-2", "wait-3"), 0)
    rows = [(row["kind"], row["name"], row["start"] // HOUR, row["end"] // HOUR) for row in found["rows"]]
    assert rows == [
        ("reservation", "works", 6, 8),
        ("running", "run-1", 0, 2),
        ("waiting", "wait-3", 0, 1),
        ("waiting", "wait-2", 2, 4),
    ]


def test_a_job_that_starts_before_one_ahead_of_it_fills_a_gap() -> None:
    found = shown(cluster(waiting(2, 3, 2), waiting(3, 1, 1)), ("wait-2", "wait-3"), 0)
    assert {row["name"]: row["note"] for row in found["rows"]} == {
        "works": "maintenance", "run-1": "", "wait-2": "", "wait-3": "fills a gap before 1 job ahead of it",
    }  # fmt: skip


def test_jobs_without_a_known_start_are_counted() -> None:
    assert shown(cluster(waiting(2, 9, 2)), ("wait-2",), 0)["unknown"] == 1


def test_an_audience_sees_the_rows_of_its_namespaces_and_counts_no_others() -> None:
    held = Placement({"worker": ("a",)})
    ledger = Ledger([Node("a", {"gpu": 4})], [Queue("default")], reservations=(Reservation("works", ("a",), 6, 8),))
    ledger.hold(RunningGang("team-a/run", 1, "default", 0, waiting(1, 1, 1).demands, held, 0, 2 * HOUR))
    job = Job("wide", (Role(replicas=9, resources={"gpu": 4}),))
    ledger.add_pending(pending_of(create_state("team-a/wide", 2, job, 0)))
    found = axis_rows(ledger.snapshot(), ("team-a/wide",), 0)
    others = shown_rows(found, Audience(frozenset({"team-b"}), frozenset({"nodes"})))
    assert (others["rows"], others["left_out"], others["unknown"]) == ([], 0, 0)
    own = shown_rows(found, Audience(frozenset({"team-a"}), frozenset({"reservations"})))
    assert ([row["name"] for row in own["rows"]], own["unknown"]) == (["works", "team-a/run"], 1)
