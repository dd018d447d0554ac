from math import inf

import pytest

from windlass.backends.local.supervisor.controller_timeout import ControllerTimeout


def test_it_is_over_when_the_agreed_time_is_and_nobody_is_awaited():
    timeout = ControllerTimeout(2.0, now=100.0)
    assert timeout.look_at == 102.0
    assert timeout.over(102.0, awaited=False)


def test_a_client_that_may_become_the_controller_is_waited_for_a_minute_at_most():
    timeout = ControllerTimeout(2.0, now=100.0)
    looks = []
    while not timeout.over(timeout.look_at, awaited=True):
        looks.append(timeout.look_at)
    assert (looks[0], looks[-1], timeout.look_at) == (104.0, 160.0, 160.0)


def test_it_begins_anew_with_each_controller_that_leaves():
    timeout = ControllerTimeout(2.0, now=100.0)
    timeout.begin(150.0)
    assert timeout.look_at == 152.0
    assert not timeout.over(160.0, awaited=True)


@pytest.mark.parametrize(("linger", "look_at"), [(0.5, 102.0), (5.0, 105.0), (inf, inf)])
def test_whoever_wants_it_longer_is_heard_even_when_he_has_left(linger, look_at):
    timeout = ControllerTimeout(2.0, now=100.0)
    timeout.lengthen(linger)
    assert timeout.look_at == look_at
