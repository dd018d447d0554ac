"""Errors of a request: refusals of the API server, a missing answer, and a write without leadership."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import orjson

from windlass.backends.errors import BackendError

INTERNAL_ERROR = 500
"""Also the status of an admission webhook that cannot be called."""
_DENIED = re.compile(r'User "[^"]*" cannot ')
"""In the message of a refusal by the authorizer."""
_MAX_SHOWN_CHARS = 300
"""Number of characters shown of a reply that is no Status (a proxy's page)."""


class Outcome(Enum):
    """The state of a request after a failed attempt."""

    REFUSED = "refused"
    """Refused; the same request would fail again."""
    NOT_DONE = "not done"
    """Certainly not carried out: rejected, or never sent."""
    UNKNOWN = "unknown"
    """Possibly carried out."""


class ApiError(BackendError):
    """The API server (or a proxy before it) has answered with an error.

    `reason` is the Status's ("NotFound", "Conflict", …), "" without one; `retry_after` in seconds; `causes` are the
    Status's details. `unsure`: this or an earlier attempt of the request may have been carried out, so AlreadyExists
    and Conflict can be that attempt's effect. `body` is the reply where it was no Status: that of a pod reached through
    the API server.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        causes: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        super().__init__(message or reason or f"the API server answered {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes
        self.unsure = False
        self.body = b""

    @property
    def outcome(self) -> Outcome:
        """Tells whether the request was carried out.

        A server that says when to retry (429; 503 with Retry-After) has not begun. Without that, and with 500, 502 and
        504, it may have: a time-out of etcd, or a proxy that lost its server.
        """
        if self.is_budget:
            return Outcome.REFUSED
        if self.status == 429 or (self.status == 503 and self.retry_after is not None):
            return Outcome.NOT_DONE
        return Outcome.UNKNOWN if self.status in {500, 502, 503, 504} else Outcome.REFUSED

    @property
    def may_pass(self) -> bool:
        """Tells whether the same request may succeed later, because nothing in it was refused.

        An API server that has just started denies every request of a user (403, 401) until it has read the roles.
        """
        return self.outcome is not Outcome.REFUSED or self.status in {401, 403}

    @property
    def is_denial(self) -> bool:
        """Tells whether the API server has denied the user (401, or 403 by its roles) before it looked at the request.

        Quotas and admission answer 403 as well. Source: k8s.io/apiserver, endpoints/handlers/responsewriters/errors.go.
        """
        return self.status == 401 or (self.status == 403 and _DENIED.search(self.message) is not None)

    @property
    def is_missing(self) -> bool:
        """404: no such object (or no such resource)."""
        return self.status == 404

    @property
    def is_exists(self) -> bool:
        """409: an object of this name exists already."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """409: another resource version, another uid, or bound already."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def is_gone(self) -> bool:
        """410: the resource version or the list's continuation is too old."""
        return self.status == 410

    @property
    def is_unauthorized(self) -> bool:
        """401: the credentials are unknown or expired."""
        return self.status == 401

    @property
    def is_forbidden(self) -> bool:
        """403: RBAC, a quota, an admission plugin, or a namespace that is being deleted."""
        return self.status == 403

    @property
    def is_invalid(self) -> bool:
        """422 or 400: an invalid object; the same request will fail again."""
        return self.status in {400, 422}

    @property
    def is_budget(self) -> bool:
        """429 to an eviction: a PodDisruptionBudget does not allow it now."""
        return self.status == 429 and any(cause.get("reason") == "DisruptionBudget" for cause in self.causes)

    @property
    def is_terminating(self) -> bool:
        """403: nothing can be created in a namespace that is being deleted."""
        return self.status == 403 and any(cause.get("reason") == "NamespaceTerminating" for cause in self.causes)


class Unreachable(BackendError):  # noqa: N818 - a state of affairs, named as people say it
    """No answer: no connection, a broken one, or none in time. `unsure` as in ApiError."""

    def __init__(self, message: str, outcome: Outcome = Outcome.UNKNOWN) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.unsure = outcome is Outcome.UNKNOWN


class NotLeader(BackendError):  # noqa: N818 - a state of affairs, named as people say it
    """A write that was not sent, because this process is not the leader."""


def error_of_reply(status: int, retry_after: str | None, body: bytes) -> ApiError:
    """Returns the error of an unsuccessful reply. `retry_after` is the header; the Status's own value comes second."""
    reported = parse_status(body)
    if reported is None:
        shown = body[:_MAX_SHOWN_CHARS].decode("utf-8", "replace").strip()
        error = ApiError(status, "", shown, parse_retry_after(retry_after))
        error.body = body
        return error
    return error_of_status(reported, status, parse_retry_after(retry_after))


def error_of_status(reported: Mapping[str, Any], status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the error of a Status, also of one in a watch event. Lenient: other servers may omit fields."""
    details = reported.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    after = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(after, int | float):
        retry_after = float(after)
    return ApiError(
        status or _number(reported.get("code")),
        str(reported.get("reason") or ""),
        str(reported.get("message") or ""),
        retry_after,
        tuple(cause for cause in causes if isinstance(cause, dict)) if isinstance(causes, list) else (),
    )


def parse_status(body: bytes) -> dict[str, Any] | None:
    """Returns the Status in a body, or None."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) and parsed.get("kind") == "Status" else None


def parse_retry_after(header: str | None) -> float | None:
    """Parses a Retry-After header in seconds, as the API server writes it; a date (a proxy's) counts as none."""
    try:
        delay = float(header or "")
    except ValueError:
        return None
    return delay if math.isfinite(delay) and delay >= 0 else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 500
