"""The learner's progress: one JSON file, replaced atomically, of which damage never stops the workshop."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from windlass.labs.errors import LabError

_MAX_BYTES = 1 << 20
Report: TypeAlias = Callable[[str], None]
"""Takes a message for the learner."""


@dataclass(frozen=True, slots=True)
class LabRecord:
    """Progress of one lab. Times in ms since the epoch; None: not yet."""

    started_at: int | None = None
    accepted_at: int | None = None
    checks: int = 0
    hints: int = 0
    """Number of hints that were shown, from the first on."""
    solution_shown: bool = False


@dataclass(frozen=True, slots=True)
class QuizScore:
    """The latest score of a quiz."""

    right: int
    asked: int
    at: int


@dataclass(frozen=True, slots=True)
class LearnerProgress:
    """Progress of a learner: labs by id, scores by module letter and part, such as `c-before`."""

    labs: dict[str, LabRecord] = field(default_factory=dict)
    quizzes: dict[str, QuizScore] = field(default_factory=dict)

    def of(self, lab_id: str) -> LabRecord:
        """Returns the record of a lab; an empty one before its start."""
        return self.labs.get(lab_id, LabRecord())


def read_progress(path: Path, report: Report) -> LearnerProgress:
    """Reads the file; a file that nothing can read is moved aside, reported, and counts as empty."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=LearnerProgress)
    except FileNotFoundError:
        return LearnerProgress()
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}\nname another folder in WINDLASS_LABS") from None
    except (ValueError, msgspec.DecodeError) as error:
        aside = path.with_suffix(".damaged.json")
        path.replace(aside)
        report(f"{path} was changed by hand and cannot be read ({error})\nit is now {aside}; labs and their files stay")
        return LearnerProgress()


def change_lab(path: Path, lab_id: str, change: Callable[[LabRecord], LabRecord], report: Report) -> None:
    """Applies a change to the record of one lab and writes the file."""
    seen = read_progress(path, report)
    _write(path, replace(seen, labs={**seen.labs, lab_id: change(seen.of(lab_id))}))


def keep_score(path: Path, name: str, score: QuizScore, report: Report) -> None:
    """Writes the latest score of a quiz, such as `c-before`."""
    seen = read_progress(path, report)
    _write(path, replace(seen, quizzes={**seen.quizzes, name: score}))


def _write(path: Path, progress: LearnerProgress) -> None:
    """Replaces the file by a complete one. Raises LabError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".progress-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(progress)) + b"\n")
        Path(temporary).replace(path)
    except OSError as error:
        raise LabError(
            f"{path} cannot be written: {error.strerror}\nmake the folder writable, or name another in WINDLASS_LABS"
        ) from None
