"""Errors of the Python API: one class for each kind, each with a `message` and the `fix`.

WindlassError
├── InvalidRequestError     a job, field or argument is invalid
├── NotAllowedError         the user lacks the right
├── NoSuchJobError          no job has this name
├── WrongStateError         the state of the job does not allow the action
├── JobRefusedError         the job could never run here
├── NoDaemonError           no daemon runs on this machine
├── TargetUnreachableError  the daemon or the API server did not answer
├── StateFolderError        the state folder cannot be read or written
├── MissingExtraError       an optional dependency is not installed
├── WaitTimeoutError        the job has not ended in time; also a TimeoutError
├── JobFailedError          the job ended without a result
├── ResultError             the result of a function cannot be read
└── InternalError           a defect of Windlass
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from windlass.server.errors import ApiError, ErrorCode


class WindlassWarning(UserWarning):
    """A remark about a submitted job: a field without effect, or an object that the cluster lacks."""


class WindlassError(Exception):
    """An error with a `message` and a `fix`; `fix` is empty if none is known."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.message, self.fix = message, fix

    def __str__(self) -> str:
        return f"{self.message}\n{self.fix}" if self.fix else self.message


class InvalidRequestError(WindlassError):
    """A job, a field or an argument is invalid."""


class NotAllowedError(WindlassError):
    """The user lacks the right, or is unknown."""


class NoSuchJobError(WindlassError):
    """No job has this name or id."""


class WrongStateError(WindlassError):
    """The state of the job does not allow the action."""


class JobRefusedError(WindlassError):
    """The job could never run here."""


class NoDaemonError(WindlassError):
    """No daemon runs on this machine."""


class TargetUnreachableError(WindlassError):
    """The daemon or the API server did not answer; whether it carried the request out is unknown."""


class StateFolderError(WindlassError):
    """The state folder cannot be read or written."""


class MissingExtraError(WindlassError):
    """An optional dependency is not installed."""


class WaitTimeoutError(WindlassError, TimeoutError):
    """The job has not ended within the timeout; it goes on."""


class JobFailedError(WindlassError):
    """The job ended without success, so it has no result.

    `job`: its id. `verdict`: on the failure, such as the exception of its function; "" without one.
    """

    def __init__(self, message: str, fix: str = "", job: str = "", verdict: str = "") -> None:
        super().__init__(message, fix)
        self.job, self.verdict = job, verdict


class ResultError(WindlassError):
    """The result of a function is missing, incomplete or no plain value."""


class InternalError(WindlassError):
    """A defect of Windlass, or an answer that is none of its own."""


OF_CODE: Mapping[ErrorCode, type[WindlassError]] = {
    ErrorCode.BAD_REQUEST: InvalidRequestError,
    ErrorCode.NOT_AUTHENTICATED: NotAllowedError,
    ErrorCode.NOT_ALLOWED: NotAllowedError,
    ErrorCode.NO_SUCH_JOB: NoSuchJobError,
    ErrorCode.WRONG_STATE: WrongStateError,
    ErrorCode.REFUSED: JobRefusedError,
    ErrorCode.BUSY: TargetUnreachableError,
    ErrorCode.DISK: StateFolderError,
    ErrorCode.NO_DAEMON: NoDaemonError,
    ErrorCode.GONE: TargetUnreachableError,
    ErrorCode.INTERNAL: InternalError,
}
"""The class of each error of the API."""


def from_api_error(error: ApiError) -> WindlassError:
    """Returns the public error of an error of the API."""
    return OF_CODE[error.code](error.message, error.fix)


@contextlib.contextmanager
def public_errors() -> Iterator[None]:
    """Translates the errors of other packages to those of this module; others pass unchanged."""
    try:
        yield
    except ApiError as error:
        raise from_api_error(error) from None
    except ModuleNotFoundError as error:
        raise _missing_extra(error) from None
    except Exception as error:
        found = _of_other_packages(error)
        if found is None:
            raise
        raise found from None


def _missing_extra(error: ModuleNotFoundError) -> Exception:
    from windlass.cli.errors import EXTRAS  # noqa: PLC0415 - only on errors

    if error.name not in EXTRAS:
        return error
    feature, extra = EXTRAS[error.name]
    fix = f"pip install 'windlass-train[{extra}]'"
    return MissingExtraError(f"{error.name}, which {feature} need, is missing", fix)


def _of_other_packages(error: Exception) -> WindlassError | None:
    """Returns the public error of an exception of the command line, the backends or the reader of jobs; else None."""
    from windlass.backends.local.name_resolution import NameResolutionError  # noqa: PLC0415 - only on errors
    from windlass.backends.port import BackendError  # noqa: PLC0415
    from windlass.cli.errors import UsageError  # noqa: PLC0415
    from windlass.jobs.errors import InputError  # noqa: PLC0415

    kinds: tuple[tuple[type[Exception], type[WindlassError]], ...] = (
        (UsageError, InvalidRequestError),
        (InputError, InvalidRequestError),
        (NameResolutionError, NoSuchJobError),
        (BackendError, StateFolderError),
    )
    for kind, public in kinds:
        if isinstance(error, kind):
            message, _, fix = str(error).rpartition("\n") if kind is UsageError else (str(error), "", "")
            return public(message or fix, fix if message else "")
    return None
