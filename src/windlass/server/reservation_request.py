"""Reservations as people ask for them: checked against each other, on nodes that are chosen if none are named. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from windlass.core.model.gang import RunningGang
from windlass.core.model.node import Node
from windlass.core.model.reservation import Reservation
from windlass.core.model.resources import GPU
from windlass.core.model.snapshot import Snapshot
from windlass.jobs.syntax.names import JOB_NAME, did_you_mean, is_name
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]
_LATEST = 2**53
"""Of any moment that is asked for, in ms."""


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """The body of a request. Moments in ms. Without `nodes`, `count` of them with `gpus` each are chosen."""

    name: str
    start: int
    end: int
    nodes: tuple[str, ...] = ()
    count: int = 0
    gpus: int = 0
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    maintenance: bool = False
    """For nobody."""
    reason: str = ""


def read_reservation(body: object) -> ReservationRequest:
    """A request's body. Raises ApiError."""
    try:
        return msgspec.convert(body, ReservationRequest)
    except msgspec.ValidationError as error:
        raise ApiError(Code.BAD_REQUEST, f"this is no reservation: {error}") from None


def make_reservation(asked: ReservationRequest, snapshot: Snapshot, now: int) -> Reservation:
    """What was asked for, on nodes that nobody else has reserved for that time. Raises ApiError."""
    _check(asked, snapshot, now)
    living = [other for other in snapshot.reservations if other.end > now]
    if any(other.name == asked.name for other in living):
        raise ApiError(
            Code.WRONG_STATE,
            f"there is a reservation {asked.name!r} already",
            f"choose another name, or delete that one with: windlass reserve {asked.name} --delete",
        )
    wanted = Reservation(
        asked.name, asked.nodes, asked.start, asked.end, asked.queues, asked.users, reason=asked.reason
    )
    if not asked.nodes:
        return _on_chosen(wanted, asked, living, snapshot)
    _refuse_overlap(wanted, living)
    return wanted


def _check(asked: ReservationRequest, snapshot: Snapshot, now: int) -> None:
    if not is_name(JOB_NAME, asked.name):
        raise ApiError(Code.BAD_REQUEST, f"{asked.name[:60]!a} cannot be the name of a reservation")
    if not 0 <= asked.start < asked.end <= _LATEST:
        raise ApiError(Code.BAD_REQUEST, "the reservation ends before it begins", "say --for 2h, or a later --until")
    if asked.end <= now:
        raise ApiError(Code.BAD_REQUEST, "the reservation is over already", "say a later --from")
    if bool(asked.queues or asked.users) == asked.maintenance:
        fix = "say --queue or --user, or --maintenance if nobody may use it"
        raise ApiError(Code.BAD_REQUEST, "it must be for somebody, or else for maintenance", fix)
    if bool(asked.nodes) == bool(asked.count):
        raise ApiError(Code.BAD_REQUEST, "either nodes or their number must be said", "say --nodes n1,n2 or -N 2")
    for node in asked.nodes:
        if node not in snapshot.table.row:
            hint = did_you_mean(node, snapshot.table.row)
            raise ApiError(Code.BAD_REQUEST, f"there is no node {node[:60]!r}{hint}", "windlass nodes lists them")
    for queue in asked.queues:
        if queue not in snapshot.queues:
            raise ApiError(Code.BAD_REQUEST, f"there is no queue {queue[:60]!r}{did_you_mean(queue, snapshot.queues)}")


def _refuse_overlap(wanted: Reservation, living: Iterable[Reservation]) -> None:
    for other in living:
        shared = [node for node in wanted.nodes if node in other.nodes]
        if shared and _meet(wanted, other):
            raise ApiError(
                Code.WRONG_STATE,
                f"{', '.join(shared)}: reserved as {other.name!r} at that time already",
                "choose other nodes or another time; windlass reserve lists what is reserved",
            )


def _on_chosen(
    wanted: Reservation, asked: ReservationRequest, living: Sequence[Reservation], snapshot: Snapshot
) -> Reservation:
    """On the nodes on which the fewest jobs would still run when it begins; of those the smallest that do."""
    taken = {node for other in living if _meet(wanted, other) for node in other.nodes}
    able = [n for n in snapshot.table.nodes if _serves(n, asked.gpus) and n.name not in taken]
    if len(able) < asked.count:
        large = f" with {asked.gpus} GPU{'s' * (asked.gpus != 1)}" if asked.gpus else ""
        raise ApiError(
            Code.WRONG_STATE,
            f"{len(able)} node{'s' * (len(able) != 1)}{large} could be reserved for that time, not {asked.count}",
            "ask for fewer, or for another time; windlass reserve lists what is reserved",
        )
    busy = [node for run in find_still_running(wanted.start, snapshot) for node in run.placement.distinct()]
    chosen = sorted(able, key=lambda n: (busy.count(n.name), n.capacity.get(GPU, 0), snapshot.table.row[n.name]))
    return replace(wanted, nodes=tuple(node.name for node in chosen[: asked.count]))


def _serves(node: Node, gpus: int) -> bool:
    return node.ready and not node.cordoned and node.capacity.get(GPU, 0) >= gpus


def _meet(one: Reservation, other: Reservation) -> bool:
    return one.start < other.end and other.start < one.end


def find_still_running(at: int, snapshot: Snapshot) -> list[RunningGang]:
    """The gangs that may still hold their nodes then."""
    return [run for run in snapshot.running.values() if run.ends_by is None or run.ends_by > at]


def reservation_line(kept: Reservation, snapshot: Snapshot, now: int, *, ours: bool) -> Json:
    """A reservation as one line of a listing. `ours`: it was made with `windlass reserve`, and can be deleted."""
    inside = set(kept.nodes)
    in_the_way = [
        {"id": run.id, "ends_by": run.ends_by, "nodes": [n for n in run.placement.distinct() if n in inside]}
        for run in find_still_running(kept.start, snapshot)
        if inside.intersection(run.placement.distinct()) and not kept.admits(run.queue, run.user)
    ]
    return {
        **msgspec.to_builtins(kept),
        "state": "over" if kept.end <= now else "now" if kept.start <= now else "to come",
        "source": "reserve" if ours else "cluster file",
        "running": in_the_way,
    }
