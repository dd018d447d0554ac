"""The errors of the API, the same on both sides of the socket: a code, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """What kind of error it is, for programs. Stable."""

    BAD_REQUEST = "bad_request"
    NOT_ALLOWED = "not_allowed"
    NO_SUCH_JOB = "no_such_job"
    WRONG_STATE = "wrong_state"
    """The job is not in a state in which this can be done."""
    REFUSED = "refused"
    """The job could never run here."""
    DISK = "disk"
    """The state folder cannot be written: full, read-only, unreadable."""
    NO_DAEMON = "no_daemon"
    """Nobody listens on the socket."""
    GONE = "gone"
    """Whoever listened has gone while it was asked: it is not known whether it did what was asked."""
    INTERNAL = "internal"


HTTP_STATUS: Mapping[Code, int] = {
    Code.BAD_REQUEST: 400,
    Code.NOT_ALLOWED: 403,
    Code.NO_SUCH_JOB: 404,
    Code.WRONG_STATE: 409,
    Code.REFUSED: 422,
    Code.INTERNAL: 500,
    Code.NO_DAEMON: 503,
    Code.GONE: 503,
    Code.DISK: 507,
}


@dataclass(slots=True)
class ApiError(Exception):
    """`message` says what is wrong, `fix` what would be right ("" if nobody knows); one line each."""

    code: Code
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n{self.fix}" if self.fix else self.message

    def as_json(self) -> dict[str, Any]:
        """The body of an error's reply."""
        return {"error": {"code": self.code.value, "message": self.message, "fix": self.fix}}


def error_from_json(body: object, status: int) -> ApiError:
    """The error that a reply carries; anything unexpected is an internal one."""
    match body:
        case {"error": {"code": str(code), "message": str(message), "fix": str(fix)}} if code in set(Code):
            return ApiError(Code(code), message, fix)
    return ApiError(Code.INTERNAL, f"the daemon answered with HTTP {status} and nothing that explains it")
