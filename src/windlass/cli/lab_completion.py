"""Shell completion of the names of labs, quizzes and concept cards."""

from __future__ import annotations


def complete_labs(incomplete: str) -> list[str]:
    """Returns the ids of labs."""
    from windlass.labs.lab_catalog import lab_ids  # noqa: PLC0415 - only for completion

    return [name for name in lab_ids() if name.startswith(incomplete.lower())]


def complete_quizzes(incomplete: str) -> list[str]:
    """Returns the letters of modules with a quiz."""
    from windlass.labs.quiz import quiz_names  # noqa: PLC0415 - as above

    return [name for name in quiz_names() if name.startswith(incomplete.lower())]


def complete_cards(incomplete: str) -> list[str]:
    """Returns the names of concept cards."""
    from windlass.labs.concept_cards import card_titles  # noqa: PLC0415 - as above

    return [name for name in card_titles() if name.startswith(incomplete)]
