"""Every lab plays: its solution and every other way is accepted, every listed mistake is refused with its words."""

from __future__ import annotations

import pytest

from windlass.labs.check_result import check_lab
from windlass.labs.concept_cards import card_titles
from windlass.labs.lab_catalog import all_labs
from windlass.labs.lab_hints import read_hints
from windlass.labs.lab_solution import solution_text
from windlass.labs.lab_start import start_lab
from windlass.labs.player import expected_refusal, play_script

pytestmark = pytest.mark.timeout(600)
LABS = all_labs()


def marks_of(lab):
    """The marks by which the programs of a control plane are built."""
    grades = (("kueue", "installers"), ("real-nodes", "real_nodes"), ("cluster", "controllers"))
    return [getattr(pytest.mark, mark) for need, mark in grades if need in lab.facts.needs]


def scripts(*kinds):
    """A parameter for each script of these kinds, named as in `c1-ways-four_ranks`."""
    return [
        pytest.param(lab, path, id=f"{lab.facts.id}-{kind}-{path.stem}", marks=marks_of(lab))
        for lab in LABS
        for kind in kinds
        for path in lab.scripts(kind)
    ]


@pytest.mark.parametrize(("lab", "script"), scripts("solution", "ways"))
def test_a_solution_is_accepted(lab, script, machine_of):
    played = play_script(lab, script, machine_of(lab), print)
    assert played.result.accepted, f"{played.result.refusal}\n{played.output}"


@pytest.mark.parametrize(("lab", "script"), scripts("mistakes"))
def test_a_mistake_is_refused_with_its_words(lab, script, machine_of):
    played = play_script(lab, script, machine_of(lab), print)
    refusal = played.result.refusal
    assert refusal is not None, played.output
    assert expected_refusal(script) in f"{refusal.what}\n{refusal.fix}", refusal


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.facts.id, marks=marks_of(lab)) for lab in LABS])
def test_a_lab_that_was_only_started_is_refused_with_the_next_thing_to_try(lab, machine_of):
    folders = machine_of(lab)
    start_lab(lab, folders, print)
    refusal = check_lab(lab, folders).refusal
    assert refusal is not None
    assert refusal.fix


@pytest.mark.parametrize("lab", LABS, ids=[lab.facts.id for lab in LABS])
def test_a_lab_is_complete(lab):
    assert len(lab.scripts("mistakes")) >= 3
    assert [path.name for path in lab.scripts("solution")] == ["solve.sh"]
    assert len(read_hints(lab)) >= 3
    assert lab.text.startswith(f"# {lab.facts.id.upper()}: {lab.facts.title}\n")
    assert "```sh\n" in lab.text
    assert solution_text(lab)
    assert card_titles().keys() >= set(lab.facts.cards)
