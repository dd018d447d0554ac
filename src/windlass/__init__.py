"""Windlass: gang-scheduled, fault-tolerant distributed training, from a laptop to a cluster.

The packages and the one-way imports between them are described in docs/design/architecture.md. The names of the Python
API are loaded at their first use, so that `import windlass` stays cheap; `__init__.pyi` has their types.
"""

from __future__ import annotations

__version__ = "0.1.0"

_MODULES = {
    "client.async_client": ("AsyncClient", "AsyncJob"),
    "client.client": ("Client", "Job"),
    "client.errors": (
        "InternalError",
        "InvalidRequestError",
        "JobFailedError",
        "MissingExtraError",
        "NoDaemonError",
        "NoSuchJobError",
        "NotAllowedError",
        "JobRefusedError",
        "ResultError",
        "StateFolderError",
        "TargetUnreachableError",
        "WaitTimeoutError",
        "WindlassError",
        "WindlassWarning",
        "WrongStateError",
    ),
    "client.job_function": ("BoundCall", "JobFunction", "job"),
    "client.records": ("JobExplanation", "JobInfo", "NodeInfo", "OutputLine", "QueueInfo", "ScheduleInfo"),
}
"""Names of the Python API, by the module that defines them."""
__all__ = [name for names in (("__version__",), *_MODULES.values()) for name in names]


def __getattr__(name: str) -> object:
    """Loads a name of the Python API at its first use."""
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module  # noqa: PLC0415 - `import windlass` needs none of it

            globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
