"""A few dozen of the schedules that `make soak` runs by the thousand."""

from __future__ import annotations

import pytest
import soak

BY_THE_DOZEN = 12


@pytest.mark.parametrize("first", range(0, 60, BY_THE_DOZEN))
def test_every_job_ends_and_nothing_is_ever_wrong_whatever_befalls_the_cluster(first: int) -> None:
    reports = [soak.soak(seed) for seed in range(first, first + BY_THE_DOZEN)]
    assert {report.seed: report.contract_violations for report in reports if report.contract_violations} == {}
    assert sum(report.deaths for report in reports) > 0


def test_a_schedule_can_be_run_again() -> None:
    assert soak.soak(5) == soak.soak(5)
