"""The decorator `job`: a function whose calls are jobs. Standard library only, because the ranks import it too."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from windlass.client.function_call import CALL
from windlass.client.job_fields import JobFields

if TYPE_CHECKING:
    from windlass.client.client import Job

P = ParamSpec("P")
R = TypeVar("R")


class JobFunction(Generic[P, R]):
    """A function whose calls are jobs: every rank runs it, and rank 0 returns the result.

    Arguments and result are plain values: None, bool, int, float, str, lists, and dicts with str as keys.
    """

    def __init__(self, function: Callable[P, R], target: str | None, namespace: str, fields: Mapping[str, Any]) -> None:
        self.function = function
        """The function without its decorator: `train.function(…)` runs it in this process."""
        self.target, self.namespace, self.fields = target, namespace, fields
        _check(function, fields)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Submits the call, waits for its end and returns the result. In a rank of a job it runs the function itself.

        Raises JobFailedError if the job does not succeed, and as `submit`.
        """
        if CALL in os.environ:
            return self.function(*args, **kwargs)
        return self.submit(*args, **kwargs).result()

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Submits the call to the target of the decorator. Raises WindlassError."""
        from windlass.client.shared_client import shared_client  # noqa: PLC0415 - ranks do not need it

        return shared_client(self.target, self.namespace).submit(self.bind(*args, **kwargs))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[R]:
        """Returns the call without submitting it, for `Client.submit` and `AsyncClient.submit`.

        Raises InvalidRequestError for arguments that the function does not take.
        """
        try:
            inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            name = self.function.__name__
            fix = f"fields of the job go beside a call: client.submit({name}.bind(…), nodes=2)"
            raise _refusal(f"{name}: {error}", fix) from None
        return BoundCall(self, list(args), dict(kwargs))


def _check(function: Callable[..., Any], fields: Mapping[str, Any]) -> None:
    """Raises InvalidRequestError for a function that returns no plain value, and for fields that no job has."""
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise _refusal(f"{name} is asynchronous", "let a function of def run it: asyncio.run(…)")
    if inspect.isgeneratorfunction(function):
        raise _refusal(f"{name} is a generator, which is no plain value", "return a list")
    if unknown := [field for field in fields if field not in JobFields.__annotations__]:
        near = difflib.get_close_matches(unknown[0], JobFields.__annotations__, 1)
        fix = f"write {near[0]}" if near else "the reference of job files lists the fields"
        raise _refusal(f"a job has no field {unknown[0]}", fix)


def _refusal(message: str, fix: str) -> Exception:
    from windlass.client.errors import InvalidRequestError  # noqa: PLC0415 - ranks do not need it

    return InvalidRequestError(message, fix)


@dataclass(frozen=True, slots=True)
class BoundCall(Generic[R]):
    """A call of a function that has not been submitted."""

    function: JobFunction[..., R]
    args: list[Any]
    kwargs: dict[str, Any]


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(
    *, target: str | None = None, namespace: str = "", **fields: Unpack[JobFields]
) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...


def job(
    function: Callable[P, R] | None = None,
    /,
    *,
    target: str | None = None,
    namespace: str = "",
    **fields: Unpack[JobFields],
) -> JobFunction[P, R] | Callable[[Callable[P, R]], JobFunction[P, R]]:
    """Makes each call of a function a job with these fields: `@windlass.job(nodes=2, gpus=4)`, or `@windlass.job`.

    `target` and `namespace`: as of `Client`.
    """

    def decorate(function: Callable[P, R]) -> JobFunction[P, R]:
        return JobFunction(function, target, namespace, dict(fields))

    return decorate if function is None else decorate(function)
