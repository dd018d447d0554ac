"""The description of a study on the command line, and the trace of each seed."""

import pytest
from small_runs import CLUSTER, FOUR, job, trace

from windlass.backends.simulator import SimulationError, cluster_of
from windlass.backends.simulator.faults import FaultKind, FaultRate
from windlass.backends.simulator.study import Study
from windlass.backends.simulator.study.costs import parse_costs
from windlass.backends.simulator.study.faults import parse_faults
from windlass.backends.simulator.study.load import at_load, offered_load
from windlass.backends.simulator.study.run import describe_cluster, trace_of
from windlass.backends.simulator.study.study import read_seeds
from windlass.backends.simulator.study.synthetic_trace import parse_synthetic_trace
from windlass.core.queues.orders.registry import POLICIES

HOUR = 3_600_000


def study(**more):
    return Study(CLUSTER, {"fifo": POLICIES["fifo"]}, **more)


@pytest.mark.parametrize(("text", "seeds"), [("3", (1, 2, 3)), ("42-44", (42, 43, 44)), ("7-7", (7,))])
def test_seeds_are_a_count_or_a_range(text, seeds):
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "0", "9-3", "a", "1-99999", "-3"])
def test_other_seeds_are_refused(text):
    with pytest.raises(SimulationError, match="seeds"):
        read_seeds(text)


def test_a_trace_is_scaled_to_a_load_by_its_gaps_only():
    whole = trace(job(1, 0, 4, 4), job(2, 2, 4, 4))
    assert offered_load(whole, CLUSTER) == 2.0
    scaled = at_load(whole, CLUSTER, 0.5)
    assert [one.submit for one in scaled.jobs] == [0, 8 * HOUR]
    assert offered_load(scaled, CLUSTER) == 0.5


def test_jobs_that_arrive_at_one_time_have_no_load():
    with pytest.raises(SimulationError, match="arrive at one time"):
        at_load(trace(job(1, 0, 1, 1)), CLUSTER, 0.5)


def test_a_trace_is_cut_then_scaled_then_given_walltimes():
    described = study(limit=3, load=1.0, walltimes="exact")
    found = trace_of(described, trace(*FOUR), seed=1)
    assert len(found.jobs) == 3
    assert offered_load(found, CLUSTER) == pytest.approx(1.0)
    assert all(one.walltime == one.duration for one in found.jobs)


def test_a_study_of_a_trace_with_its_own_walltimes_is_not_random():
    assert study().random == ""
    assert study(walltimes="users").random == "walltimes are drawn anew"


def test_walltimes_of_users_differ_by_seed_and_are_reproducible():
    described = study(walltimes="users")
    one, again, two = (trace_of(described, trace(*FOUR), seed) for seed in (1, 1, 2))
    assert one == again
    assert one != two


def test_a_synthetic_trace_is_described_on_one_line():
    drawn = parse_synthetic_trace("jobs=200 load=0.8 sizes=1/8 queues=2 users=3 median=1h daily=false", CLUSTER)
    found = drawn.trace(1)
    assert len(found.jobs) == 200
    assert {one.gpus for one in found.jobs} == {1, 8}
    assert {one.queue for one in found.jobs} == {"q1", "q2"}
    assert 0.4 < offered_load(found, CLUSTER) < 1.6  # heavy tails: a mean of so few jobs is anywhere near
    assert drawn.trace(1) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job=5", "there is no setting 'job'; did you mean 'jobs'?"),
        ("load=0", "load expects a number above 0"),
        ("sizes=1/64", "sizes has 64 GPUs, and the cluster 8"),
    ],
)
def test_an_impossible_synthetic_trace_is_refused(text, message):
    with pytest.raises(SimulationError, match="--synthetic") as error:
        parse_synthetic_trace(text, CLUSTER)
    assert message in str(error.value)


def test_fault_rates_are_given_by_kind():
    faults = parse_faults("node=30d/4h rank=90d", ["n1"])
    assert faults.rates == {
        FaultKind.NODE: FaultRate(30 * 24 * HOUR, 4 * HOUR),
        FaultKind.RANK: FaultRate(90 * 24 * HOUR, 0),
    }
    assert faults.about == "Every node has faults, on average: node every 30d for 4h, rank every 90d."


def test_faults_begin_with_the_trace_and_are_reproducible():
    late = trace(job(1, 1_000_000, 48, 1), job(2, 1_000_100, 1, 1))
    faults = parse_faults("node=1d/1h", ["n1"])
    drawn = faults.of(late, ["n1", "n2"], seed=5)
    assert drawn
    assert all(fault.at >= late.jobs[0].submit and fault.until > fault.at for fault in drawn)
    assert drawn == faults.of(late, ["n1", "n2"], seed=5)
    assert drawn != faults.of(late, ["n1", "n2"], seed=6)


@pytest.mark.parametrize(
    ("text", "message"),
    [("nodes=1d", "did you mean 'node'?"), ("node=often", "node "), ("node=0s/1h", "some time between two")],
)
def test_impossible_fault_rates_are_refused(text, message):
    with pytest.raises(SimulationError) as error:
        parse_faults(text, ["n1"])
    assert message in str(error.value)


def test_costs_are_parsed_as_durations():
    costs = parse_costs("restart=1m checkpoint-every=30m checkpoint=20s")
    assert (costs.start, costs.restart, costs.checkpoint_every, costs.checkpoint) == (0, 60_000, 1_800_000, 20_000)
    with pytest.raises(SimulationError, match="did you mean 'restart'"):
        parse_costs("restarts=1m")


@pytest.mark.parametrize("text", ["checkpoint_every=often", "checkpoint-every=often"])
def test_errors_in_costs_name_the_setting_with_dashes(text):
    with pytest.raises(SimulationError, match="--costs: checkpoint-every expects"):
        parse_costs(text)


def test_a_cluster_is_described_with_its_nodes_and_gpus():
    assert describe_cluster(cluster_of(96, 8)) == "96 nodes with 8 GPUs each"
    assert describe_cluster(cluster_of(1, 1)) == "1 node with 1 GPU"
    assert describe_cluster(cluster_of(3, 0, cpus=4)) == "3 nodes"
