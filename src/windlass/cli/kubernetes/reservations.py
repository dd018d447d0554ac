"""Creates and deletes Reservation objects. Free nodes are chosen from the operator's snapshot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from windlass.backends.kubernetes.cluster.cluster_state import RESERVATIONS
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.jobs.kubernetes.query_api import GROUP, SNAPSHOTS
from windlass.jobs.syntax.timestamps import format_moment
from windlass.server import reservation_request
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_ASK_ADMINISTRATOR = (
    "reservations are for administrators of the cluster: ask one to reserve, or for a ClusterRoleBinding to a role "
    f"with create and delete on {RESERVATIONS.full_name} and get on {SNAPSHOTS}.{GROUP}"
)


def reserve(session: ApiSession, operator: OperatorClient, request: Json) -> Json:
    """Reserves nodes for queues, users or maintenance. Returns the reservation's line. Raises ApiError."""
    from windlass.jobs.cluster.snapshot_file import from_plain  # noqa: PLC0415 - rarely needed

    now = int(time.time() * 1000)
    with _explained_refusals():
        snapshot = from_plain(operator.get("/v1/snapshot")).snapshot
    reservation = reservation_request.make_reservation(reservation_request.read_reservation(request), snapshot, now)
    times = {"start": format_moment(reservation.start), "end": format_moment(reservation.end)}
    optional = {name: getattr(reservation, name) for name in ("nodes", "queues", "users", "reason")}
    body = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": reservation.name},
        "spec": {**times, **{name: value for name, value in optional.items() if value}},
    }
    with _explained_refusals():
        session.run(session.connection.create(RESERVATIONS, body))
    return reservation_request.reservation_line(reservation, snapshot, now, ours=True)


def unreserve(session: ApiSession, name: str) -> Json:
    """Deletes a reservation. Raises ApiError."""
    try:
        with _explained_refusals():
            session.run(session.connection.delete(RESERVATIONS, None, name))
    except ApiError as error:
        if error.code is not ErrorCode.NO_SUCH_JOB:
            raise
        fix = "windlass reserve lists reservations"
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"there is no reservation {name[:60]!r}", fix) from None
    return {"name": name}


@contextlib.contextmanager
def _explained_refusals() -> Iterator[None]:
    """Names the rights that reservations need, which no role in a namespace contains, when one of them lacks."""
    try:
        yield
    except ApiError as error:
        if error.code is ErrorCode.NOT_ALLOWED:
            error.fix = _ASK_ADMINISTRATOR
        raise
