"""Every folder of a lab has all parts of a lab."""

from __future__ import annotations

import pytest

from windlass.labs.concept_cards import card_titles
from windlass.labs.lab_catalog import all_labs
from windlass.labs.lab_hints import read_hints
from windlass.labs.lab_solution import solution_text

LABS = all_labs()


@pytest.mark.parametrize("lab", LABS, ids=[lab.facts.id for lab in LABS])
def test_a_lab_is_complete(lab):
    assert len(lab.scripts("mistakes")) >= 3
    assert [path.name for path in lab.scripts("solution")] == ["solve.sh"]
    assert len(read_hints(lab)) >= 3
    assert lab.text.startswith(f"# {lab.facts.id.upper()}: {lab.facts.title}\n")
    assert "```sh\n" in lab.text
    assert solution_text(lab)
    assert card_titles().keys() >= set(lab.facts.cards)
