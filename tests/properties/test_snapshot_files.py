"""A snapshot that was written and read gives the identical plan: admissions, order, verdicts and all."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, milli_gpus_of, shape_of, start_gang
from windlass.core.model.job import Match, Toleration, TopologyRequest
from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.plan import Plan
from windlass.core.model.policy import Policy
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.model.reservation import Reservation
from windlass.core.queues.orders.registry import ORDERS
from windlass.jobs.cluster.snapshot_file import (
    SnapshotRecord,
    decisions_of,
    from_bytes,
    from_plain,
    to_bytes,
    to_plain,
)
from windlass.jobs.errors import InputError

QUEUES = (
    Queue("default"),
    Queue("lab", {"gpu": 6}),
    Queue("a", {"gpu": 3}, parent="lab", weight=2, half_life=1_000),
    Queue("b", {"gpu": 3}, parent="lab", borrowing={"gpu": 1}, lending={"gpu": 2}, max_running=2),
)
TOPOLOGY = Topology(("rack",))
LAB = Taint("lab")


@st.composite
def clusters(draw):
    return [
        Node(
            name=f"n{number}",
            capacity={"gpu": draw(st.integers(0, 4)), "cpu": 1000 * draw(st.integers(0, 4))},
            labels={"gpu-type": draw(st.sampled_from(["A100-80GB", "T4"]))},
            taints=draw(st.sampled_from([(), (), (LAB,)])),
            place=(draw(st.sampled_from("rs")),),
            cordoned=draw(st.sampled_from(["", "", "", "drained"])),
            sharing=draw(st.sampled_from(["", "", "milli", "mig"])),
        )
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]


topologies = st.none() | st.builds(TopologyRequest, st.just("rack"), st.booleans(), st.booleans())
devices = st.sampled_from([{"gpu": 1}, {"gpu": 2}, {"gpu": 3}, {"gpu-milli": 400}, {"mig-3g.40gb": 1}, {}])


@st.composite
def gangs(draw, number):
    count = draw(st.integers(1, 4))
    demand = Demand(
        role="worker",
        count=count,
        resources={**draw(devices), "cpu": 500 * draw(st.integers(0, 3))},
        tolerations=draw(st.sampled_from([(), (Toleration("lab", "Exists"),)])),
        affinity=draw(st.sampled_from([(), ((Match("gpu-type", "NotIn", ("T4",)),),)])),
        gpu_types=draw(st.sampled_from([(), ("T4", "A100-80GB")])),
        avoid=draw(st.sampled_from([(), ("n1",)])),
        whole_node=draw(st.integers(0, 5)) == 0,
        topology=draw(topologies),
        min_count=draw(st.sampled_from([0, 0, 1])),
    )
    queue = draw(st.sampled_from(["default", "a", "b"]))
    return PendingGang(
        id=f"j-{number}",
        number=number,
        queue=queue,
        priority=draw(st.sampled_from([0, 0, 0, 1])),
        since=draw(st.integers(0, 3)),
        demands=(demand,),
        shape=shape_of(queue, (demand,)),
        walltime=draw(st.none() | st.integers(1, 2_000)),
        not_before=draw(st.none() | st.none() | st.integers(0, 20)),
        user=draw(st.sampled_from(["ada", "bob"])),
        milli_gpus=milli_gpus_of((demand,)),
        run_time=draw(st.integers(0, 5)),
        preemptible=draw(st.booleans()),
    )


reservations = st.builds(
    Reservation,
    st.just("kept"),
    st.sampled_from([("n1",), ("n1", "n2")]),
    st.integers(0, 500),
    st.integers(501, 3_000),
    queues=st.sampled_from([(), ("a",)]),
)
policies = st.builds(
    Policy,
    st.sampled_from(sorted(ORDERS)),
    reservations=st.sampled_from([0, 1, 3, -1]),
    preempt=st.booleans(),
    min_runtime=st.sampled_from([0, 50]),
)


@st.composite
def scenes(draw):
    """A ledger on which gangs run from one cycle, and more wait; and a time a little later."""
    kept = draw(st.lists(reservations, max_size=1))
    ledger = Ledger(draw(clusters()), QUEUES, TOPOLOGY, draw(policies), kept)
    count = draw(st.integers(0, 6))
    for number in range(count):
        ledger.add_pending(draw(gangs(number)))
    first = ledger.snapshot()
    waiting = {gang.id: gang for gang in first.pending}
    for admission in schedule(first, 0).admissions:
        run = start_gang(waiting[admission.job_id], admission.placement, 0)
        ledger.hold(replace(run, stopping=draw(st.integers(0, 6)) == 0, saved_at=draw(st.none() | st.integers(0, 9))))
    for number in range(count, count + draw(st.integers(0, 5))):
        ledger.add_pending(draw(gangs(number)))
    return ledger.snapshot(), draw(st.integers(0, 100))


def whole(plan: Plan):
    """All parts of a plan."""
    return replace(plan, order=tuple(plan.order), verdicts=dict(plan.verdicts))


@depth(100)
@given(scenes(), st.booleans())
def test_a_plan_on_the_read_snapshot_equals_the_original(scene, packed):
    snapshot, now = scene
    before = schedule(snapshot, now)
    read = from_bytes(to_bytes(SnapshotRecord(snapshot, now, decisions_of(before)), packed=packed), "s.json")
    after = schedule(read.snapshot, read.now)
    assert whole(after) == whole(before)
    assert read.plan == decisions_of(after)


@given(scenes())
def test_a_file_that_was_read_is_written_as_it_was(scene):
    taken = SnapshotRecord(*scene)
    assert to_plain(from_plain(to_plain(taken))) == to_plain(taken)
    assert to_bytes(from_plain(to_plain(taken)), packed=True) == to_bytes(taken, packed=True)


def test_past_usage_is_part_of_the_file():
    ledger = Ledger([Node("n1", {"gpu": 2})], QUEUES)
    snapshot = replace(ledger.snapshot(), past_usage={"a": PastUsage(7, {"gpu": 2**41})})
    assert from_plain(to_plain(SnapshotRecord(snapshot, 9))).snapshot.past_usage == snapshot.past_usage


@given(scenes(), st.data())
def test_a_damaged_file_gives_a_snapshot_or_one_clear_error(scene, data):
    content = to_bytes(SnapshotRecord(*scene), packed=data.draw(st.booleans()))
    start = data.draw(st.integers(0, len(content)))
    damaged = content[:start] + data.draw(st.binary(max_size=4)) + content[start + data.draw(st.integers(0, 9)) :]
    message = ""
    try:
        from_bytes(damaged, "s.json")
    except InputError as error:
        message = str(error)
    assert not message or message.startswith("s.json: is ")


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ([], "s.json: is no snapshot; make one with: windlass snapshot FILE"),
        (
            {"format": "windlass snapshot", "version": 9},
            "is a snapshot of version 9, and this Windlass reads version 1",
        ),
        ({"format": "windlass snapshot", "version": 1}, "s.json: is a damaged snapshot: 'pending'"),
    ],
)
def test_a_file_that_is_no_snapshot_says_so(plain, message):
    with pytest.raises(InputError) as error:
        from_bytes(json.dumps(plain).encode(), "s.json")
    assert message in str(error.value)
