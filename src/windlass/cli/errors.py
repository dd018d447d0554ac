"""Every kind of error as one line for people (a second one for the fix), and an exit code."""

from __future__ import annotations

import os
import tempfile
import traceback
from typing import Any

from windlass.cli.exit_codes import OF_ERROR, ExitCode
from windlass.server.errors import ApiError

_EXTRAS = {
    **dict.fromkeys(("aiohttp", "kubernetes_asyncio", "orjson", "pathspec", "yarl"), ("clusters", "kubernetes")),
    **dict.fromkeys(("safetensors", "torch"), ("exports", "train")),
}
"""Module → (who needs it, the extra that brings it)."""


class UsageError(Exception):
    """The command line asks for something that cannot be; the text says what can."""


def describe_error(trouble: Exception) -> tuple[str, ExitCode]:
    """(text, exit code) of anything that was raised. Loads the other rooms' errors: only called when there is one."""
    from windlass.backends.local.lock import HeldError  # noqa: PLC0415
    from windlass.backends.local.records import UnknownJobError  # noqa: PLC0415
    from windlass.backends.port import BackendError  # noqa: PLC0415
    from windlass.jobs.errors import JobError  # noqa: PLC0415
    from windlass.train.checkpoint.store.errors import CheckpointError, PlaceError  # noqa: PLC0415

    if isinstance(trouble, ApiError):
        return str(trouble), OF_ERROR[trouble.code]
    kinds: tuple[tuple[type[Exception], ExitCode], ...] = (
        (UsageError, ExitCode.USAGE),
        (JobError, ExitCode.USAGE),
        (UnknownJobError, ExitCode.NO_SUCH_JOB),
        (HeldError, ExitCode.BUSY),
        (BackendError, ExitCode.STATE_UNUSABLE),
        (PlaceError, ExitCode.STATE_UNUSABLE),
        (CheckpointError, ExitCode.USAGE),
    )
    for kind, code in kinds:
        if isinstance(trouble, kind):
            return str(trouble), code
    if isinstance(trouble, ModuleNotFoundError) and trouble.name in _EXTRAS:
        who, extra = _EXTRAS[trouble.name]
        return f"{trouble.name}, which {who} need, is missing\npip install 'windlass[{extra}]'", ExitCode.USAGE
    if isinstance(trouble, OSError) and isinstance(trouble.filename, str):
        return f"{trouble.filename}: {trouble.strerror}", ExitCode.STATE_UNUSABLE
    if hasattr(trouble, "format_message"):
        return _of_typer(trouble), ExitCode.USAGE
    return _of_ours(trouble), ExitCode.SOFTWARE


def _of_typer(trouble: Any) -> str:
    """A wrong option or a missing argument, in typer's words. Without any argument: the help."""
    context = getattr(trouble, "ctx", None)
    if context is None:
        return str(trouble.format_message())
    if type(trouble).__name__ == "NoArgsIsHelpError":
        return str(context.get_help())
    text = str(trouble.format_message()).rstrip(".")
    if type(trouble).__name__ == "NoSuchOption" and context.info_name in ("run", "submit", "alloc", "render"):
        return f"{text}\nthe command's own options go after --: windlass {context.info_name} -N 2 -- python train.py -x"
    return f"{text}\nsee: {context.command_path} --help"


def _of_ours(trouble: Exception) -> str:
    """An error of ours: its details go to a file, for whoever mends it."""
    summary = (str(trouble).splitlines() or [""])[0][:200]
    return f"internal error: {type(trouble).__name__}: {summary}\n{_kept(''.join(traceback.format_exception(trouble)))}"


def _kept(story: str) -> str:
    """Where the details are now, or why they are nowhere."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"windlass-error-{os.getuid()}-", suffix=".txt", delete=False, errors="backslashreplace"
        ) as file:
            file.write(story)
    except OSError as error:
        return f"its details could not be written to {tempfile.gettempdir()}: {error.strerror}"
    return f"its details are in {file.name}"
