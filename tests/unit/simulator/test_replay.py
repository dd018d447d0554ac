"""Replays of traces that are small enough to check by hand."""

from __future__ import annotations

import pytest

from windlass.backends.simulator import Costs, Outcome, SimulationError, Trace, TraceJob, cluster_of, measure, replay
from windlass.backends.simulator.gangs import gang_of, job_of, sizes_of
from windlass.backends.simulator.outcome import EndCause
from windlass.backends.simulator.progress import time_needed, work_done, work_kept
from windlass.core.lifecycle.events import Submitted
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import pending_of
from windlass.core.model.policy import Policy

S = 1000
FIFO = Policy(order="fifo", reservations=0, preempt=False)


def trace_of(*jobs: tuple[int, int, int], **more) -> Trace:
    """Returns a trace; each job is (submit in s, duration in s, GPUs)."""
    return Trace(
        "by-hand",
        "synthetic",
        tuple(
            TraceJob(f"t-{number}", submit * S, duration * S, gpus=gpus, replicas=None, row=number, **more)
            for number, (submit, duration, gpus) in enumerate(jobs, start=1)
        ),
    )


def starts(outcome: Outcome) -> list[int]:
    return (outcome.first_begin // S).tolist()


def test_jobs_start_in_order_as_capacity_is_released() -> None:
    outcome = replay(trace_of((0, 100, 8), (1, 50, 8), (2, 10, 16), (3, 1, 1)), cluster_of(2), FIFO)
    assert starts(outcome) == [0, 1, 100, 110]
    assert (outcome.last_end // S).tolist() == [100, 51, 110, 111]


def test_jobs_larger_than_a_node_take_whole_nodes_and_a_remainder() -> None:
    outcome = replay(trace_of((0, 10, 20)), cluster_of(4), FIFO)
    assert sorted(outcome.amount.tolist()) == [4000, 8000, 8000]
    assert len(set(outcome.row.tolist())) == 3


def test_ends_precede_arrivals_of_the_same_time() -> None:
    assert starts(replay(trace_of((0, 10, 8), (10, 5, 8)), cluster_of(1), FIFO)) == [0, 10]


def test_a_walltime_ends_a_job_only_if_kill_is_set() -> None:
    long = trace_of((0, 100, 1), walltime=60 * S)
    assert measure(replay(long, cluster_of(1), FIFO)).killed == 0
    killed = replay(long, cluster_of(1), FIFO, kill=True)
    assert killed.cause.tolist() == [EndCause.KILLED]
    assert (killed.last_end // S).tolist() == [60]


def test_a_job_that_does_not_fit_the_empty_cluster_is_refused_with_its_row() -> None:
    trace = trace_of((0, 10, 4), (1, 10, 99))
    with pytest.raises(
        SimulationError, match="by-hand, row 2: job t-2 asks for 99 GPUs, which this cluster of 2 nodes"
    ):
        replay(trace, cluster_of(2), FIFO)
    outcome = replay(trace, cluster_of(2), FIFO, skip_bad=True)
    assert outcome.left_out == {"too large for the cluster": 1}
    assert measure(outcome).everything.jobs == 1


def test_progress_is_reported_until_all_jobs_have_ended() -> None:
    reports: list[tuple[int, int]] = []
    replay(trace_of((0, 10, 4), (1, 10, 4)), cluster_of(1), FIFO, on_progress=lambda *at: reports.append(at))
    assert reports[-1] == (2, 2)


def test_a_trace_without_gpus_is_measured_in_cores() -> None:
    jobs = tuple(TraceJob(f"c-{n}", 0, 10 * S, replicas=4, cpu=1000) for n in range(3))
    outcome = replay(Trace("cores", "swf", jobs), cluster_of(2, 0, cpus=4), FIFO)
    assert (outcome.unit, outcome.capacity, starts(outcome)) == ("cpu", 8000, [0, 0, 10])


def test_a_small_schedule_has_the_expected_metrics() -> None:
    """Two nodes of 4. 4 GPUs for 100 s; 4 GPUs for 50 s; 8 GPUs for 100 s, which wait until 100 s."""
    outcome = replay(trace_of((0, 100, 4), (0, 50, 4), (10, 100, 8)), cluster_of(2, 4), FIFO)
    found = measure(outcome)
    assert found.everything.jct.avg == pytest.approx((100 + 50 + 190) * S / 3)
    assert (found.everything.wait.max, found.everything.wait.p50) == (90 * S, 0)
    assert found.everything.slowdown.max == pytest.approx(1.9)
    assert found.makespan == 200 * S
    assert found.unallocated == pytest.approx(1 - (400 + 200 + 800) / (8 * 200))
    assert {name: group.jobs for name, group in found.by_size.items()} == {"4–7": 2, "8–15": 1}
    # 4 GPUs of one node were free for 50 s, and every job needs 4 on a node: none of them was unusable
    assert found.fragmentation == 0.0


def test_free_capacity_too_small_for_jobs_is_fragmentation() -> None:
    """One job holds 2 of 4; the free 2 suffice for one job of two: for 2 GPUs, not for the later one of 4."""
    found = measure(replay(trace_of((0, 100, 2), (100, 100, 4)), cluster_of(1, 4), FIFO))
    assert found.fragmentation == pytest.approx(0.5)


def test_finish_time_fairness_is_one_for_a_single_job_and_grows_with_contention() -> None:
    assert measure(replay(trace_of((0, 100, 8)), cluster_of(1), FIFO)).fairness_max == pytest.approx(1.0)
    # the second waits 100 s for 10 s of work; the demand is twice the cluster, then once
    found = measure(replay(trace_of((0, 100, 8), (0, 10, 8)), cluster_of(1), FIFO))
    contention = (100 * 2 + 10 * 1) / 110
    assert found.fairness_max == pytest.approx(110 / (10 * contention))
    assert found.unfair == 0.5


def test_the_same_replay_gives_the_same_arrays() -> None:
    trace = trace_of(*((n, 50 + n % 7, n % 9 + 1) for n in range(60)))
    first, again = (replay(trace, cluster_of(2), FIFO) for _ in range(2))
    assert all(
        getattr(first, name).tobytes() == getattr(again, name).tobytes()
        for name in ("job", "begin", "end", "cause", "seats", "row", "amount")
    )


def test_starts_and_checkpoints_cost_time() -> None:
    costs = Costs(start=5, restart=30, checkpoint_every=100, checkpoint=10)
    assert time_needed(250, costs, first=True) == 5 + 250 + 2 * 10
    assert time_needed(200, costs, first=False) == 30 + 200 + 10
    assert work_done(5 + 100 + 10 + 40, costs, first=True) == (140, 100)
    assert work_done(3, costs, first=True) == (0, 0)
    assert work_kept(5 + 100 + 10 + 40, costs, first=True, stopped=True) == 140
    assert work_kept(5 + 100 + 10 + 40, costs, first=True, stopped=False) == 100
    assert work_kept(70, Costs(saves_when_stopped=False), first=True, stopped=True) == 0


def test_a_gang_equals_the_controllers_gang_of_the_same_job() -> None:
    jobs = (
        TraceJob("a", 5, 10, gpus=20, replicas=None, cpu=40_000, user="ann", queue="q", walltime=9, priority=3),
        TraceJob("b", 6, 10, gpu_milli=300, gpu_types=("a100", "v100"), memory=2**30),
        TraceJob("c", 7, 10, replicas=None, cpu=9_000),
    )
    sizes = sizes_of(cluster_of(2, 8, cpus=4).nodes)
    for number, job in enumerate(jobs, start=1):
        state = create_state(f"trace-{number}", number, job_of(job, sizes), job.submit)
        queued, _ = step(state, Submitted(), job.submit)
        assert gang_of(job, number, sizes) == pending_of(queued)
