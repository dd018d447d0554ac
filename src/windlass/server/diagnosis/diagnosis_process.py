"""Runs a diagnosis in a process with limits, from an event loop that must not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.diagnose.diagnosis import Diagnosis
from windlass.jobs.secret_masks import mask_secrets
from windlass.server.diagnosis.evidence_request import EvidenceRequest

_WORKER = ("-m", "windlass.server.diagnosis.worker")
_EVIDENCE = "--evidence"
_Answer = TypeVar("_Answer", DiagnosedCause, Diagnosis)
_MAX_LINE, _MAX_ERROR = 10_000, 300
"""Characters of the last line of errors that are read, and that are shown."""
_VARIABLES = frozenset({"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"})


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of one diagnosis."""

    memory: int = 1 << 30
    """Bytes of address space."""
    cpu_s: int = 30
    time_s: float = 60.0
    """Longest time from the start to the verdict."""


class DiagnosisError(Exception):
    """The process has not come to a verdict; the text says why."""


async def diagnose_in_process(
    request: EvidenceRequest, limits: ProcessLimits, worker: Sequence[str] = _WORKER
) -> DiagnosedCause:
    """Returns the verdict of a process of its own, which is killed if it takes too long. Raises DiagnosisError."""
    return _decode(await _run(request, limits, (*worker, *_limit_words(limits))), DiagnosedCause)


async def find_evidence_in_process(request: EvidenceRequest, limits: ProcessLimits) -> Diagnosis:
    """Returns the whole diagnosis of such a process, with the lines that prove the cause. Raises DiagnosisError."""
    return _decode(await _run(request, limits, (*_WORKER, *_limit_words(limits), _EVIDENCE)), Diagnosis)


def _limit_words(limits: ProcessLimits) -> tuple[str, str]:
    return str(limits.memory), str(limits.cpu_s)


def _decode(answer: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        raise DiagnosisError(f"its process printed no verdict ({error})") from None


async def _run(request: EvidenceRequest, limits: ProcessLimits, words: Sequence[str]) -> bytes:
    """Returns what the process prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
        start_new_session=True,  # Ctrl-C in a terminal is not meant for it
    )
    try:
        async with asyncio.timeout(limits.time_s):
            answer, errors = await process.communicate(msgspec.json.encode(request))
    except TimeoutError:
        raise DiagnosisError(f"it took longer than {limits.time_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise DiagnosisError(_describe_end(process.returncode, errors))
    return answer


def _environment() -> dict[str, str]:
    """Returns the variables that Python needs: no credentials of this process for one that reads hostile logs."""
    kept = {name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith("PYTHON")}
    return kept | {"OPENBLAS_NUM_THREADS": "1"}  # each thread would reserve address space


def _describe_end(code: int, errors: bytes) -> str:
    line = errors.decode(errors="replace").strip().rpartition("\n")[2]
    last = mask_secrets(line[:_MAX_LINE])[:_MAX_ERROR]  # masked first: a part of a secret is not recognised
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"its process ended with {ended}" + (f": {last}" if last else "")
