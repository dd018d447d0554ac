"""Every lab of this machine plays: its solution and every other way is accepted, every listed mistake is refused."""

from __future__ import annotations

import pytest
from lab_plays import assert_accepted, assert_next_thing_is_named, assert_refused_with_its_words, scripts, starts

from windlass.labs.lab_catalog import all_labs

pytestmark = pytest.mark.timeout(600)
LABS = [lab for lab in all_labs() if not lab.needs_cluster]


@pytest.mark.parametrize(("lab", "script"), scripts(LABS, "solution", "ways"))
def test_a_solution_is_accepted(lab, script, machine_of):
    assert_accepted(lab, script, machine_of(lab))


@pytest.mark.parametrize(("lab", "script"), scripts(LABS, "mistakes"))
def test_a_mistake_is_refused_with_its_words(lab, script, machine_of):
    assert_refused_with_its_words(lab, script, machine_of(lab))


@pytest.mark.parametrize("lab", starts(LABS))
def test_a_lab_that_was_only_started_is_refused_with_the_next_thing_to_try(lab, machine_of):
    assert_next_thing_is_named(lab, machine_of(lab))
