"""Refusal of every action: on a cluster users change objects under their own rights, and the operator watches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from windlass.server.errors import ApiError, ErrorCode
from windlass.server.submission_request import SubmissionRequest
from windlass.server.views import Json

_WHY = "the operator only answers queries: on a cluster jobs are objects, and users change them under their own rights"


class ReadOnlyActions:
    """The interface `actions.Actions`, which refuses each action with the command to use instead."""

    async def submit(self, _request: SubmissionRequest) -> list[str]:
        """Refused: users create objects."""
        _refuse("windlass submit --on kubernetes, or kubectl apply, makes the objects")

    async def act(self, verb: str, name: str, _body: Mapping[str, Any]) -> Json:
        """Refused: users delete objects or change their spec."""
        _refuse(f"windlass {verb} --on kubernetes {name}, or {_BY_HAND.get(verb, 'kubectl')}")

    async def act_on_all(self, verb: str, _body: Mapping[str, Any]) -> Json:
        """Refused, as `act`."""
        _refuse(f"windlass {verb} --on kubernetes, or {_BY_HAND.get(verb, 'kubectl')}")

    async def reserve(self, _body: object) -> Json:
        """Refused: users create a Reservation."""
        _refuse("windlass reserve --on kubernetes, or kubectl apply, makes a Reservation")

    async def unreserve(self, name: str) -> Json:
        """Refused: users delete the Reservation."""
        _refuse(f"kubectl delete reservations.windlass.dev {name}")

    async def down(self, _body: Mapping[str, Any]) -> Json:
        """Refused: `windlass operator uninstall` removes the operator."""
        _refuse("windlass operator uninstall removes the operator")


_BY_HAND = {
    "cancel": "kubectl delete the object",
    "suspend": "kubectl patch its spec: suspend: true",
    "resume": "kubectl patch its spec: suspend: false",
}


def _refuse(instead: str) -> NoReturn:
    raise ApiError(ErrorCode.NOT_ALLOWED, _WHY, instead)
