"""The workshop as a view of the dashboard: labs with progress and scores, and the texts of labs and cards.

The dashboard finds this module by its entry point and calls `stamp` and `read`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from windlass.labs.concept_cards import card_titles, read_card
from windlass.labs.errors import LabError
from windlass.labs.lab_catalog import all_labs, find_lab
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import lab_folders
from windlass.labs.progress import LabRecord, LearnerProgress
from windlass.labs.quiz import PARTS, quiz_names, read_quiz

Json: TypeAlias = dict[str, Any]


def stamp() -> str:
    """Returns the time of the last change of the progress; the rest belongs to the installation."""
    try:
        return str(lab_folders().progress.stat().st_mtime_ns)
    except OSError:
        return ""


def read(name: str) -> Json | None:
    """Returns the whole workshop, or the text of `labs/ID` or `cards/NAME`; None if there is no such part."""
    kind, _, which = name.partition("/")
    if not name:
        return _overview()
    try:
        if kind == "labs":
            lab = find_lab(which)
            return {**_lab(lab, _read_progress().of(lab.facts.id)), "text": lab.text}
        if kind == "cards":
            return {"name": which, "text": read_card(which)}
    except LabError:
        return None
    return None


def _overview() -> Json:
    progress = _read_progress()
    return {
        "folder": str(lab_folders().root),
        "labs": [_lab(lab, progress.of(lab.facts.id)) for lab in all_labs()],
        "cards": [{"name": name, "title": title} for name, title in card_titles().items()],
        "quizzes": [_quiz(module, progress) for module in quiz_names()],
    }


def _lab(lab: LabDescription, record: LabRecord) -> Json:
    facts = lab.facts
    state = "accepted" if record.accepted_at else "started" if record.started_at else "new"
    return {
        "id": facts.id,
        "title": facts.title,
        "module": facts.module,
        "goal": facts.goal,
        "minutes": facts.minutes,
        "needs": list(facts.needs),
        "cards": list(facts.cards),
        "days": list(facts.days),
        "gpu": facts.gpu,
        "state": state,
        "checks": record.checks,
        "hints": record.hints,
    }


def _quiz(module: str, progress: LearnerProgress) -> Json:
    quiz = read_quiz(module)
    found = {part: progress.quizzes.get(f"{module}-{part}") for part in PARTS}
    scores = {part: f"{score.right} of {score.asked}" if score else "" for part, score in found.items()}
    return {"module": quiz.module, "title": quiz.title, **scores}


def _read_progress() -> LearnerProgress:
    """Returns the learner's progress; an empty one for a damaged file, which the next verb reports and moves aside."""
    try:
        return msgspec.json.decode(lab_folders().progress.read_bytes(), type=LearnerProgress)
    except (OSError, ValueError, msgspec.DecodeError):
        return LearnerProgress()
