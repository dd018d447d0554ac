"""Translates every exception into one line of text (a second line states the fix) and an exit code."""

from __future__ import annotations

import os
import tempfile
import traceback
from typing import Any

from windlass.cli.exit_codes import OF_ERROR, ExitCode
from windlass.server.errors import ApiError

EXTRAS = {
    **dict.fromkeys(
        ("aiohttp", "cryptography", "kubernetes_asyncio", "orjson", "pathspec", "yarl"), ("clusters", "kubernetes")
    ),
    **dict.fromkeys(("safetensors", "torch"), ("exports", "train")),
}
"""Module → (what needs it, the extra of the package that installs it)."""


class UsageError(Exception):
    """The command line is invalid; the text states what is valid."""


def describe_error(error: Exception) -> tuple[str, ExitCode]:
    """Returns (text, exit code) of an exception. Imports error classes of other packages: call it only on errors."""
    from windlass.backends.kubernetes.client.identity import AccessError  # noqa: PLC0415
    from windlass.backends.local.folder_lock import HeldError  # noqa: PLC0415
    from windlass.backends.local.name_resolution import NameResolutionError  # noqa: PLC0415
    from windlass.backends.port import BackendError  # noqa: PLC0415
    from windlass.cli.queue_limit import QueueTimeoutError  # noqa: PLC0415
    from windlass.hardware.errors import PlanError  # noqa: PLC0415
    from windlass.jobs.errors import InputError  # noqa: PLC0415
    from windlass.labs.errors import LabError, LabStateError  # noqa: PLC0415
    from windlass.train.checkpoint.store.errors import CheckpointError, StorageError  # noqa: PLC0415

    if isinstance(error, ApiError):
        return str(error), OF_ERROR[error.code]
    kinds: tuple[tuple[type[Exception], ExitCode], ...] = (
        (UsageError, ExitCode.USAGE),
        (InputError, ExitCode.USAGE),
        (PlanError, ExitCode.USAGE),
        (NameResolutionError, ExitCode.NO_SUCH_JOB),
        (AccessError, ExitCode.USAGE),
        (HeldError, ExitCode.BUSY),
        (QueueTimeoutError, ExitCode.BUSY),
        (BackendError, ExitCode.STATE_UNUSABLE),
        (StorageError, ExitCode.STATE_UNUSABLE),
        (CheckpointError, ExitCode.USAGE),
        (LabStateError, ExitCode.WRONG_STATE),
        (LabError, ExitCode.USAGE),
    )
    for kind, code in kinds:
        if isinstance(error, kind):
            return str(error), code
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        feature, extra = EXTRAS[error.name]
        return f"{error.name}, which {feature} need, is missing\npip install 'windlass-train[{extra}]'", ExitCode.USAGE
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}", ExitCode.STATE_UNUSABLE
    if hasattr(error, "format_message"):
        return _describe_usage_error(error), ExitCode.USAGE
    return _describe_internal_error(error), ExitCode.SOFTWARE


def _describe_usage_error(error: Any) -> str:
    """Returns typer's message about a wrong option or a missing argument; without any argument, the help."""
    context = getattr(error, "ctx", None)
    if context is None:
        return str(error.format_message())
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(context.get_help())
    text = str(error.format_message()).rstrip(".")
    if type(error).__name__ == "NoSuchOption" and context.info_name in ("run", "submit", "alloc", "render"):
        return f"{text}\nthe command's own options go after --: windlass {context.info_name} -N 2 -- python train.py -x"
    return f"{text}\nsee: {context.command_path} --help"


def _describe_internal_error(error: Exception) -> str:
    """Writes the traceback of a defect of Windlass to a file; returns a summary with the path of that file."""
    summary = (str(error).splitlines() or [""])[0][:200]
    details = _write_details("".join(traceback.format_exception(error)))
    return f"internal error: {type(error).__name__}: {summary}\n{details}"


def _write_details(text: str) -> str:
    """Writes the text to a temporary file; returns a sentence with its path, or with the reason of a failure."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"windlass-error-{os.getuid()}-", suffix=".txt", delete=False, errors="backslashreplace"
        ) as file:
            file.write(text)
    except OSError as error:
        return f"its details could not be written to {tempfile.gettempdir()}: {error.strerror}"
    return f"its details are in {file.name}"
