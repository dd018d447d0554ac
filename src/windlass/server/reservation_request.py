"""Reservation requests: validation, overlap with other reservations, and choice of nodes if none are named. Pure."""

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
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_MAX_TIME_MS = 2**53
"""Latest time in a request."""


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """Body of a request, with times in ms. Without `nodes`, `count` nodes with `gpus` each are chosen."""

    name: str
    start: int
    end: int
    nodes: tuple[str, ...] = ()
    count: int = 0
    gpus: int = 0
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    maintenance: bool = False
    """No job may use the nodes."""
    reason: str = ""


def read_reservation(body: object) -> ReservationRequest:
    """Decodes a request's body. Raises ApiError."""
    try:
        return msgspec.convert(body, ReservationRequest)
    except msgspec.ValidationError as error:
        raise ApiError(ErrorCode.BAD_REQUEST, f"this is not a reservation: {error}") from None


def make_reservation(request: ReservationRequest, snapshot: Snapshot, now: int) -> Reservation:
    """The requested reservation, on nodes without another reservation for that time. Raises ApiError."""
    _check(request, snapshot, now)
    living = [other for other in snapshot.reservations if other.end > now]
    if any(other.name == request.name for other in living):
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"there is a reservation {request.name!r} already",
            f"choose another name, or delete that one with: windlass reserve {request.name} --delete",
        )
    reservation = Reservation(
        request.name, request.nodes, request.start, request.end, request.queues, request.users, reason=request.reason
    )
    if not request.nodes:
        return _choose_nodes(reservation, request, living, snapshot)
    _refuse_overlap(reservation, living)
    return reservation


def _check(request: ReservationRequest, snapshot: Snapshot, now: int) -> None:
    if not is_name(JOB_NAME, request.name):
        raise ApiError(ErrorCode.BAD_REQUEST, f"{request.name[:60]!a} is not a valid name of a reservation")
    if not 0 <= request.start < request.end <= _MAX_TIME_MS:
        raise ApiError(
            ErrorCode.BAD_REQUEST, "the reservation ends before it begins", "use --for 2h, or a later --until"
        )
    if request.end <= now:
        raise ApiError(ErrorCode.BAD_REQUEST, "the reservation is over already", "use a later --from")
    if bool(request.queues or request.users) == request.maintenance:
        fix = "use --queue or --user, or --maintenance if no job may use the nodes"
        raise ApiError(ErrorCode.BAD_REQUEST, "a reservation is either for queues or users, or for maintenance", fix)
    if bool(request.nodes) == bool(request.count):
        raise ApiError(ErrorCode.BAD_REQUEST, "either nodes or their number must be given", "use --nodes n1,n2 or -N 2")
    for node in request.nodes:
        if node not in snapshot.table.row:
            hint = did_you_mean(node, snapshot.table.row)
            raise ApiError(ErrorCode.BAD_REQUEST, f"there is no node {node[:60]!r}{hint}", "windlass nodes lists them")
    for queue in request.queues:
        if queue not in snapshot.queues:
            raise ApiError(
                ErrorCode.BAD_REQUEST, f"there is no queue {queue[:60]!r}{did_you_mean(queue, snapshot.queues)}"
            )


def _refuse_overlap(reservation: Reservation, living: Iterable[Reservation]) -> None:
    for other in living:
        shared = [node for node in reservation.nodes if node in other.nodes]
        if shared and _overlaps(reservation, other):
            raise ApiError(
                ErrorCode.WRONG_STATE,
                f"{', '.join(shared)}: reserved as {other.name!r} at that time already",
                "choose other nodes or another time; windlass reserve lists what is reserved",
            )


def _choose_nodes(
    reservation: Reservation, request: ReservationRequest, living: Sequence[Reservation], snapshot: Snapshot
) -> Reservation:
    """Chooses the nodes on which the fewest jobs would still run at the start; among equal ones the smallest."""
    taken = {node for other in living if _overlaps(reservation, other) for node in other.nodes}
    able = [n for n in snapshot.table.nodes if _is_usable(n, request.gpus) and n.name not in taken]
    if len(able) < request.count:
        large = f" with {request.gpus} GPU{'s' * (request.gpus != 1)}" if request.gpus else ""
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{len(able)} node{'s' * (len(able) != 1)}{large} could be reserved for that time, not {request.count}",
            "ask for fewer, or for another time; windlass reserve lists what is reserved",
        )
    busy = [node for run in find_still_running(reservation.start, snapshot) for node in run.placement.distinct()]
    chosen = sorted(able, key=lambda n: (busy.count(n.name), n.capacity.get(GPU, 0), snapshot.table.row[n.name]))
    return replace(reservation, nodes=tuple(node.name for node in chosen[: request.count]))


def _is_usable(node: Node, gpus: int) -> bool:
    return node.ready and not node.cordoned and node.capacity.get(GPU, 0) >= gpus


def _overlaps(one: Reservation, other: Reservation) -> bool:
    return one.start < other.end and other.start < one.end


def find_still_running(at: int, snapshot: Snapshot) -> list[RunningGang]:
    """Gangs that may still hold their nodes at this time."""
    return [run for run in snapshot.running.values() if run.ends_by is None or run.ends_by > at]


def reservation_line(reservation: Reservation, snapshot: Snapshot, now: int, *, ours: bool) -> Json:
    """A reservation as a line of a listing. `ours`: made with `windlass reserve`, so that it can be deleted."""
    inside = set(reservation.nodes)
    still_running = [
        {"id": run.id, "ends_by": run.ends_by, "nodes": [n for n in run.placement.distinct() if n in inside]}
        for run in find_still_running(reservation.start, snapshot)
        if inside.intersection(run.placement.distinct()) and not reservation.admits(run.queue, run.user)
    ]
    return {
        **msgspec.to_builtins(reservation),
        "state": "over" if reservation.end <= now else "now" if reservation.start <= now else "to come",
        "source": "reserve" if ours else "cluster file",
        "running": still_running,
    }
