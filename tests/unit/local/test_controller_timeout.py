from math import inf

import pytest

from windlass.backends.local.supervisor.controller_timeout import ControllerTimeout


def test_a_timeout_expires_after_its_linger_if_no_client_lives():
    timeout = ControllerTimeout(2.0, now=100.0)
    assert timeout.check_at == 102.0
    assert timeout.has_expired(102.0, has_client=False)


def test_a_living_client_extends_the_timeout_to_a_minute_at_most():
    timeout = ControllerTimeout(2.0, now=100.0)
    checks = []
    while not timeout.has_expired(timeout.check_at, has_client=True):
        checks.append(timeout.check_at)
    assert (checks[0], checks[-1], timeout.check_at) == (104.0, 160.0, 160.0)


def test_a_timeout_begins_again_with_each_controller_that_disconnects():
    timeout = ControllerTimeout(2.0, now=100.0)
    timeout.begin(150.0)
    assert timeout.check_at == 152.0
    assert not timeout.has_expired(160.0, has_client=True)


@pytest.mark.parametrize(("linger", "check_at"), [(0.5, 102.0), (5.0, 105.0), (inf, inf)])
def test_a_longer_linger_extends_a_timeout_that_has_begun(linger, check_at):
    timeout = ControllerTimeout(2.0, now=100.0)
    timeout.extend(linger)
    assert timeout.check_at == check_at
