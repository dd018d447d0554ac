from __future__ import annotations

import pytest

import windlass
from windlass.backends.port import BackendError
from windlass.cli.errors import UsageError
from windlass.client.errors import OF_CODE, public_errors
from windlass.jobs.errors import input_error
from windlass.server.errors import ApiError, ErrorCode


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_of_the_api_has_a_class_and_keeps_its_fix(code: ErrorCode):
    with pytest.raises(OF_CODE[code]) as raised, public_errors():
        raise ApiError(code, "broken", "mend it")
    assert (raised.value.message, raised.value.fix, str(raised.value)) == ("broken", "mend it", "broken\nmend it")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (UsageError("no such thing\nname another"), windlass.InvalidRequestError, "name another"),
        (UsageError("no such thing"), windlass.InvalidRequestError, "no such thing"),
        (input_error("job", "expects a number"), windlass.InvalidRequestError, "job: expects a number"),
        (BackendError("the database is locked"), windlass.StateFolderError, "locked"),
        (
            ModuleNotFoundError("aiohttp", name="aiohttp"),
            windlass.MissingExtraError,
            r"pip install 'windlass-train\[kubernetes",
        ),
    ],
)
def test_errors_of_other_packages_become_public_ones(error: Exception, kind: type[Exception], text: str):
    with pytest.raises(kind, match=text), public_errors():
        raise error


def test_an_unforeseen_error_passes_unchanged():
    with pytest.raises(ZeroDivisionError), public_errors():
        raise ZeroDivisionError


def test_every_error_is_a_windlass_error():
    names = [name for name in windlass.__all__ if name.endswith("Error")]
    assert all(issubclass(getattr(windlass, name), windlass.WindlassError) for name in names)
    assert issubclass(windlass.WaitTimeoutError, TimeoutError)
