"""Evidence of one attempt as data that a diagnosis process receives: files to read, and texts."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.diagnose.flight.facts import read_hang_evidence
from windlass.diagnose.flight.rank_places import RankPlace
from windlass.server.diagnosis.failed_starts import FailedStart
from windlass.server.diagnosis.log_excerpts import open_file, open_stream
from windlass.server.diagnosis.repeated_failure import RepeatedFailure, find_repeated_failure

MAX_EXCERPT_BYTES = 16 << 20
"""Bytes that are read of all logs of an attempt together, about."""
_MIN_LOG_BYTES, _MAX_LOG_BYTES = 16 << 10, 4 << 20
"""Bytes that are read of one log: a quarter from its start, the rest from its end."""
_STARTS = "failed starts"
"""Name of the source with the result of the comparison of all failed starts."""


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A log in a file. A stream is the output of a local rank, in rotated parts with an index of times."""

    name: str
    path: str
    rank: int | None = None
    node: str | None = None
    is_stream: bool = False
    is_complete: bool = False
    """Whether the file has everything from the start to the end of the output, if it is small enough to be read."""


@dataclass(frozen=True, slots=True)
class LoggedText:
    """Lines that a backend knows: the job's record, ends of ranks, conditions, events, logs of pods."""

    name: str
    text: str
    rank: int | None = None
    node: str | None = None
    is_complete: bool = True
    """Whether nothing of it is left out. A part of a log proves nothing by what it lacks."""
    is_trusted: bool = False
    """Whether only the platform writes it, such as the conditions of a node. It confirms verdicts, and makes none."""
    from_events: bool = False
    """Whether lines of it are Events of the cluster, which any user with the right to write Events can write."""


@dataclass(frozen=True, slots=True)
class EvidenceRequest:
    """All evidence of one attempt."""

    attempt: int
    files: Sequence[LoggedFile] = ()
    texts: Sequence[LoggedText] = ()
    hang_files: Sequence[str] = ()
    """Paths of flight recorders' dumps, stacks and rank status files, among others that are none of these."""
    expected_ranks: int | None = None
    unseen: Sequence[str] = ()
    """Evidence that could not be read, and the right or setting that would show it."""
    starts: Sequence[FailedStart] = ()
    """Failed starts of the job up to this attempt, from the oldest."""


class ReadEvidence(NamedTuple):
    """The evidence of an attempt, read."""

    evidence: Evidence
    gaps: Sequence[str]
    """Evidence that could not be read."""
    repeated: RepeatedFailure | None
    """The failure that this attempt shares with those before it."""
    places: Mapping[int, RankPlace]
    """Place of each rank by its flight recorder or its stack, where they were written."""


def read_evidence(request: EvidenceRequest) -> ReadEvidence:
    """Reads excerpts of all files, and compares the failed starts."""
    size = min(_MAX_LOG_BYTES, max(_MIN_LOG_BYTES, MAX_EXCERPT_BYTES // max(1, len(request.files))))
    logs = [_file_source(each, request.attempt, size) for each in request.files]
    logs += [_text_source(each, request.attempt) for each in request.texts]
    hang = read_hang_evidence(map(Path, request.hang_files), request.expected_ranks)
    repeated = find_repeated_failure(request.starts)
    if repeated:
        logs.append(_text_source(LoggedText(_STARTS, f"{repeated.line}\n"), request.attempt))
    evidence = Evidence(logs, request.expected_ranks, hang.facts)
    return ReadEvidence(evidence, [*request.unseen, *hang.gaps], repeated, hang.places)


def _file_source(log: LoggedFile, attempt: int, size: int) -> LogSource:
    excerpt = (open_stream if log.is_stream else open_file)(Path(log.path), size)
    is_complete = log.is_complete and excerpt.is_whole
    return LogSource(log.name, excerpt.open, log.rank, log.node, attempt, is_complete)


def _text_source(log: LoggedText, attempt: int) -> LogSource:
    opened = partial(io.BytesIO, log.text.encode(errors="replace"))
    return LogSource(log.name, opened, log.rank, log.node, attempt, log.is_complete, log.is_trusted)
