"""Concept cards: one page of Markdown for each idea."""

from __future__ import annotations

from pathlib import Path

from windlass.jobs.syntax.names import did_you_mean
from windlass.labs.errors import LabError

CARDS = Path(__file__).with_name("cards")


def card_titles() -> dict[str, str]:
    """Returns the title of each card by its name."""
    found = {}
    for path in sorted(CARDS.glob("*.md")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().lstrip("# ").strip()
    return found


def read_card(name: str) -> str:
    """Returns the text of a card. Raises LabError with the nearest known name."""
    wanted = name.lower().replace("-", "_")
    path = CARDS / f"{wanted}.md"
    known = card_titles()
    if wanted not in known:
        raise LabError(
            f"there is no card {name[:40]!r}{did_you_mean(wanted, known)}\nwindlass lab card lists all cards"
        )
    return path.read_text(encoding="utf-8")
