"""The simulation of arrivals against results of queueing theory, and the shapes of arrivals."""

import numpy as np
import pytest

from windlass.hardware.sharing.arrivals import ARRIVALS, ArrivalSeries, draw_arrivals, mean_rate
from windlass.hardware.sharing.request import Arrivals, Workload, WorkloadKind
from windlass.hardware.sharing.simulation import SWITCHING, PodPlace, Stream, simulate


def series(times, works, pods=None):
    return ArrivalSeries(np.array(times, float), np.array(works, float), np.array(pods or [0.0] * len(times)))


def latencies(stream, *others):
    return simulate([stream, *others])[0].latencies.tolist()


def workload(rate, number=1, duration=1.0, **arrivals):
    return Workload("w", WorkloadKind.INFERENCE, number, 1, duration, arrivals=Arrivals(rate, **arrivals))


def test_one_pod_serves_in_order():
    assert latencies(Stream(series([0, 1, 10], [4, 4, 4]), (PodPlace(1.0),), False)) == [4, 7, 4]


def test_a_slow_pod_takes_longer():
    assert latencies(Stream(series([0], [4]), (PodPlace(2.5),), False)) == [10]


def test_the_first_free_of_two_pods_serves():
    assert latencies(Stream(series([0, 0, 0], [4, 2, 2]), (PodPlace(1.0),) * 2, False)) == [4, 2, 4]


def test_a_burst_of_a_notebook_waits_for_its_own_pod():
    two = Stream(series([0, 0], [4, 4], [0.1, 0.2]), (PodPlace(1.0),) * 2, True)
    assert latencies(two) == [4, 8]


def test_two_busy_pods_share_the_time_of_their_gpu():
    one = Stream(series([0], [4]), (PodPlace(1.0, 7),), False)
    other = Stream(series([0], [1]), (PodPlace(1.0, 7),), False)
    both_busy = 2 / (1 - SWITCHING)
    assert latencies(other, one) == pytest.approx([both_busy])
    assert latencies(one, other) == pytest.approx([both_busy + 3])


def test_pods_on_different_gpus_do_not_share_time():
    one = Stream(series([0], [4]), (PodPlace(1.0, 7),), False)
    other = Stream(series([0], [4]), (PodPlace(1.0, 8),), False)
    assert latencies(one, other) == [4]


def test_a_shared_gpu_with_one_pod_is_as_fast_as_a_whole_one():
    drawn = draw_arrivals(workload(0.7), 1, 3)
    shared = simulate([Stream(drawn, (PodPlace(1.0, 1),), False)])[0]
    whole = simulate([Stream(drawn, (PodPlace(1.0),), False)])[0]
    assert shared.latencies == pytest.approx(whole.latencies)


def test_the_wait_of_one_pod_is_that_of_pollaczek_and_khinchine():
    """M/G/1 at a load of 0.5 and a coefficient of variation of 0.5: 0.625 of a service."""
    waits = [
        simulate([Stream(draw_arrivals(workload(0.5), 1, seed), (PodPlace(1.0),), False)])[0].waits.mean()
        for seed in range(20)
    ]
    assert np.mean(waits) == pytest.approx(0.625, rel=0.05)


def test_arrivals_have_their_rate_and_their_peak():
    drawn = draw_arrivals(workload(10.0, burst=4.0, duty=0.2, cycle_s=50.0), 1, 1)
    assert len(drawn.times) == ARRIVALS
    assert np.sum(drawn.times < 350) == pytest.approx(3500, rel=0.05)
    assert np.mean(drawn.times % 50 < 10) == pytest.approx(0.8, abs=0.02)


def test_arrivals_are_those_of_the_seed_and_the_name():
    first, again, other = (draw_arrivals(workload(1.0), 1, seed).times for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_half_of_the_pods_get_half_of_a_trace():
    traced = workload(0.0, number=2, trace=tuple(float(second) for second in range(2000)))
    assert len(draw_arrivals(traced, 2, 0).times) == 2000
    assert len(draw_arrivals(traced, 1, 0).times) == pytest.approx(1000, rel=0.1)
    assert mean_rate(traced.arrivals) == pytest.approx(1.0)
