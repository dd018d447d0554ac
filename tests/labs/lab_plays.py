"""Plays of labs: the scripts of a lab as parameters of tests, and what a test of each of them asserts.

`make test` plays every solution, and all scripts of labs that need no program beside Windlass. The other ways and
mistakes start torch or pods some eighty times: `make test-labs` plays these too.
"""

from __future__ import annotations

import os

import pytest

from windlass.labs.check_result import check_lab
from windlass.labs.lab_start import start_lab
from windlass.labs.player import expected_refusal, play_script

PLAYS_ALL = os.environ.get("WINDLASS_PLAYS") == "all"


def scripts(labs, *kinds):
    """A parameter for each script of these kinds, named as in `c1-ways-four_ranks`."""
    return [
        pytest.param(lab, path, id=f"{lab.facts.id}-{kind}-{path.stem}", marks=[*marks_of(lab), *limits_of(lab, kind)])
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


def limits_of(lab, kind):
    """The mark that leaves a script to `make test-labs`."""
    slow = kind != "solution" and lab.facts.needs and not PLAYS_ALL
    return [pytest.mark.skip(reason="played by make test-labs")] if slow else []


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
