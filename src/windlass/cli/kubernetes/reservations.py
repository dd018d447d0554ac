"""Reservations of a cluster: objects, made of what the operator knows, with the right to make them."""

from __future__ import annotations

import time
from typing import Any

from windlass.backends.kubernetes.cluster.cluster_state import RESERVATIONS
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.jobs.syntax.timestamps import format_moment
from windlass.server import reservation_request
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]


def reserve(reach: ApiSession, operator: OperatorClient, asked: Json) -> Json:
    """Keep nodes for somebody, or for nobody, for a time. Returns the reservation's line. Raises ApiError."""
    from windlass.jobs.cluster.snapshot_file import load  # noqa: PLC0415 - few ask

    now = int(time.time() * 1000)
    snapshot = load(operator.get("/v1/snapshot")).snapshot
    kept = reservation_request.make_reservation(reservation_request.read_reservation(asked), snapshot, now)
    told = {"nodes": kept.nodes, "queues": kept.queues, "users": kept.users, "reason": kept.reason}
    spec = {"start": format_moment(kept.start), "end": format_moment(kept.end)}
    body = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": kept.name},
        "spec": {**spec, **{name: value for name, value in told.items() if value}},
    }
    reach.do(reach.connection.create(RESERVATIONS, body))
    return reservation_request.reservation_line(kept, snapshot, now, ours=True)


def unreserve(reach: ApiSession, name: str) -> Json:
    """Give the nodes of a reservation back. Raises ApiError."""
    try:
        reach.do(reach.connection.delete(RESERVATIONS, None, name))
    except ApiError as error:
        if error.code is not Code.NO_SUCH_JOB:
            raise
        fix = "windlass reserve lists what there is"
        raise ApiError(Code.NO_SUCH_JOB, f"there is no reservation {name[:60]!r}", fix) from None
    return {"name": name}
