"""The rate limit of a connection: a burst passes, then only the rate."""

from __future__ import annotations

from windlass.backends.kubernetes.agents.rate_limit import TokenBucket


def test_a_burst_passes_and_what_follows_it_is_limited_to_the_rate() -> None:
    bucket = TokenBucket(rate=20, burst=100, now=5.0)
    assert [bucket.take(1, 5.0) for _ in range(101)] == [True] * 100 + [False]
    assert not bucket.take(1, 5.04)
    assert bucket.take(1, 5.06)
    assert not bucket.take(1, 5.06)
    assert bucket.take(20, 6.06)


def test_an_idle_time_gives_no_more_than_one_burst() -> None:
    bucket = TokenBucket(rate=20, burst=100, now=0.0)
    assert bucket.take(100, 0.0)
    assert bucket.take(100, 1_000.0)
    assert not bucket.take(1, 1_000.0)


def test_a_heartbeat_every_two_seconds_always_passes() -> None:
    bucket = TokenBucket(rate=20, burst=100, now=0.0)
    assert all(bucket.take(1, 2.0 * number) for number in range(10_000))
