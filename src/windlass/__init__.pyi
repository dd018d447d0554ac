# Types of the names of the Python API, which `__init__.py` loads at their first use.
#
# mypy's setting `always_true` hides the imports from the check of the project itself: every module would be in one
# import cycle. A test compares the names with those of the package.

__version__: str
_PROJECT_CHECK: bool

if not _PROJECT_CHECK:  # noqa: PYI002 - see above
    from windlass.client.async_client import AsyncClient as AsyncClient
    from windlass.client.async_client import AsyncJob as AsyncJob
    from windlass.client.client import Client as Client
    from windlass.client.client import Job as Job
    from windlass.client.errors import InternalError as InternalError
    from windlass.client.errors import InvalidRequestError as InvalidRequestError
    from windlass.client.errors import JobFailedError as JobFailedError
    from windlass.client.errors import JobRefusedError as JobRefusedError
    from windlass.client.errors import MissingExtraError as MissingExtraError
    from windlass.client.errors import NoDaemonError as NoDaemonError
    from windlass.client.errors import NoSuchJobError as NoSuchJobError
    from windlass.client.errors import NotAllowedError as NotAllowedError
    from windlass.client.errors import ResultError as ResultError
    from windlass.client.errors import StateFolderError as StateFolderError
    from windlass.client.errors import TargetUnreachableError as TargetUnreachableError
    from windlass.client.errors import WaitTimeoutError as WaitTimeoutError
    from windlass.client.errors import WindlassError as WindlassError
    from windlass.client.errors import WindlassWarning as WindlassWarning
    from windlass.client.errors import WrongStateError as WrongStateError
    from windlass.client.job_function import BoundCall as BoundCall
    from windlass.client.job_function import JobFunction as JobFunction
    from windlass.client.job_function import job as job
    from windlass.client.records import JobExplanation as JobExplanation
    from windlass.client.records import JobInfo as JobInfo
    from windlass.client.records import NodeInfo as NodeInfo
    from windlass.client.records import OutputLine as OutputLine
    from windlass.client.records import QueueInfo as QueueInfo
    from windlass.client.records import ScheduleInfo as ScheduleInfo
