"""Errors of the API, the same in daemon and client: a code, a message and a fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NO_DAEMON, START_DAEMON = "no daemon runs", "start one with: windlass up -d"
"""Message and fix without a daemon."""


class ErrorCode(StrEnum):
    """Kind of an error, for programs. The values are stable."""

    BAD_REQUEST = "bad_request"
    NOT_AUTHENTICATED = "not_authenticated"
    """The request names no user."""
    NOT_ALLOWED = "not_allowed"
    NO_SUCH_JOB = "no_such_job"
    WRONG_STATE = "wrong_state"
    """The job's state does not allow the action."""
    REFUSED = "refused"
    """The job could never run here."""
    BUSY = "busy"
    """The user has too many requests at once."""
    DISK = "disk"
    """The state folder cannot be written: full, read-only, unreadable."""
    NO_DAEMON = "no_daemon"
    """No process listens on the socket."""
    GONE = "gone"
    """The daemon ended during the request. Whether it carried the request out is unknown."""
    INTERNAL = "internal"


HTTP_STATUS: Mapping[ErrorCode, int] = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.NOT_AUTHENTICATED: 401,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.NO_SUCH_JOB: 404,
    ErrorCode.WRONG_STATE: 409,
    ErrorCode.REFUSED: 422,
    ErrorCode.BUSY: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.NO_DAEMON: 503,
    ErrorCode.GONE: 503,
    ErrorCode.DISK: 507,
}


@dataclass(slots=True)
class ApiError(Exception):
    """An error with a `message` and a `fix`, one line each. `fix` is empty if none is known."""

    code: ErrorCode
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n{self.fix}" if self.fix else self.message

    def as_json(self) -> dict[str, Any]:
        """The body of an error's reply."""
        return {"error": {"code": self.code.value, "message": self.message, "fix": self.fix}}


def error_from_json(body: object, status: int) -> ApiError:
    """The error in a reply. An unexpected body becomes an internal error."""
    match body:
        case {"error": {"code": str(code), "message": str(message), "fix": str(fix)}} if code in set(ErrorCode):
            return ApiError(ErrorCode(code), message, fix)
    return ApiError(ErrorCode.INTERNAL, f"the daemon answered with HTTP {status} and nothing that explains it")
