from math import inf

import pytest

from windlass.backends.local.warden.vigil import Vigil


def test_it_is_over_when_the_agreed_time_is_and_nobody_is_awaited():
    vigil = Vigil(2.0, now=100.0)
    assert vigil.look_at == 102.0
    assert vigil.over(102.0, awaited=False)


def test_a_client_that_may_become_the_controller_is_waited_for_a_minute_at_most():
    vigil = Vigil(2.0, now=100.0)
    looks = []
    while not vigil.over(vigil.look_at, awaited=True):
        looks.append(vigil.look_at)
    assert (looks[0], looks[-1], vigil.look_at) == (104.0, 160.0, 160.0)


def test_it_begins_anew_with_each_controller_that_leaves():
    vigil = Vigil(2.0, now=100.0)
    vigil.begin(150.0)
    assert vigil.look_at == 152.0
    assert not vigil.over(160.0, awaited=True)


@pytest.mark.parametrize(("linger", "look_at"), [(0.5, 102.0), (5.0, 105.0), (inf, inf)])
def test_whoever_wants_it_longer_is_heard_even_when_he_has_left(linger, look_at):
    vigil = Vigil(2.0, now=100.0)
    vigil.lengthen(linger)
    assert vigil.look_at == look_at
