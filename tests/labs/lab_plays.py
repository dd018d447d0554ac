"""How a lab is played: its scripts as parameters of tests, and what a test of each of them asserts."""

from __future__ import annotations

import pytest

from windlass.labs.check_result import check_lab
from windlass.labs.lab_start import start_lab
from windlass.labs.player import expected_refusal, play_script


def scripts(labs, *kinds):
    """A parameter for each script of these kinds, named as in `c1-ways-four_ranks`."""
    return [
        pytest.param(lab, path, id=f"{lab.facts.id}-{kind}-{path.stem}", marks=marks_of(lab))
        for lab in labs
        for kind in kinds
        for path in lab.scripts(kind)
    ]


def starts(labs):
    """A parameter for each lab."""
    return [pytest.param(lab, id=lab.facts.id, marks=marks_of(lab)) for lab in labs]


def marks_of(lab):
    """The marks by which the programs of a control plane are built."""
    grades = (("real-nodes", "real_nodes"), ("cluster", "controllers"))
    return [getattr(pytest.mark, mark) for need, mark in grades if need in lab.facts.needs]


def assert_accepted(lab, script, folders):
    played = play_script(lab, script, folders, print)
    assert played.result.accepted, f"{played.result.refusal}\n{played.output}"


def assert_refused_with_its_words(lab, script, folders):
    played = play_script(lab, script, folders, print)
    refusal = played.result.refusal
    assert refusal is not None, played.output
    assert expected_refusal(script) in f"{refusal.what}\n{refusal.fix}", refusal


def assert_next_thing_is_named(lab, folders):
    start_lab(lab, folders, print)
    refusal = check_lab(lab, folders).refusal
    assert refusal is not None
    assert refusal.fix
