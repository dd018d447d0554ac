"""Shared GPUs, MIG, whole nodes, models: a gang of equal members is placed if and only if it fits.
Free amounts are followed by hand, from the devices that placements name, and room is found by trying everything."""

from dataclasses import replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.invariants import snapshot_violations
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, RunningGang, shape_of, start_gang
from windlass.core.model.job import Match
from windlass.core.model.mig import GEOMETRIES, MASKS, gpu_and_start
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.placement.gang_placement import fits, place

PLACES = {  # slices and first slices, after the table that NVIDIA prints
    "mig-1g.5gb": (1, (0, 1, 2, 3, 4, 5, 6)),
    "mig-1g.10gb": (2, (0, 2, 4, 6)),
    "mig-2g.10gb": (2, (0, 2, 4)),
    "mig-3g.20gb": (4, (0, 4)),
    "mig-4g.20gb": (4, (0,)),
    "mig-7g.40gb": (8, (0,)),
}
LOOKING_AHEAD = Policy(
    scoring="fgd",
    typical_demands=(
        (Demand("worker", 1, {"gpu": 1, "cpu": 2}), 5),
        (Demand("worker", 1, {"gpu-milli": 400, "cpu": 1}), 4),
        (Demand("worker", 1, {"cpu": 1}), 2),
    ),
)

# --- clusters and gangs ---------------------------------------------------------------------------------


@st.composite
def clusters(draw):
    return [_node(draw, f"n{number}") for number in range(1, draw(st.integers(1, 4)) + 1)]


def _node(draw, name):
    sharing = draw(st.sampled_from(["", "milli", "milli", "mig"]))
    model = "A100-40GB" if sharing == "mig" else draw(st.sampled_from(["V100", "T4"]))
    return Node(
        name,
        {"gpu": draw(st.integers(1, 3)), "cpu": draw(st.integers(2, 9))},
        {"gpu-type": model},
        (),
        (),
        sharing=sharing,
    )


@st.composite
def demands(draw):
    gpus = draw(
        st.sampled_from(
            [
                *({"gpu": count} for count in (1, 2)),
                *({"gpu-milli": milli} for milli in (200, 300, 500, 700)),
                *({profile: count} for profile in PLACES for count in (1, 2)),
                {},
            ]
        )
    )
    return Demand(
        "worker",
        draw(st.integers(1, 5)),
        {**gpus, "cpu": draw(st.integers(0, 2))},
        affinity=draw(st.sampled_from([(), (), ((Match("gpu-type", "NotIn", ("T4",)),),)])),
        gpu_types=draw(st.sampled_from([(), (), ("V100", "T4"), ("A100-40GB",)])),
        avoid=draw(st.sampled_from([(), (), ("n1",)])),
        whole_node=draw(st.sampled_from([False, False, False, True])),
    )


def run(ledger, demand, number, policy):
    """Starts the gang if it fits."""
    gang = PendingGang(f"j-{number}", number, "default", 0, 0, (demand,), shape_of("default", (demand,)))
    snapshot = ledger.snapshot()
    found = place(snapshot.free, snapshot.table, (demand,), None, policy)
    if found is not None:
        ledger.hold(start_gang(gang, found.placement, 0), found.grant)
    return found


@st.composite
def scenes(draw):
    """A ledger on which gangs have started and ended."""
    ledger = Ledger(draw(clusters()), ())
    policy = draw(st.sampled_from([Policy(), LOOKING_AHEAD]))
    for number, demand in enumerate(draw(st.lists(demands(), max_size=6))):
        run(ledger, demand, number, policy)
        if draw(st.booleans()) and draw(st.booleans()) and ledger.snapshot().running:
            ledger.release(draw(st.sampled_from(sorted(ledger.snapshot().running))))
    return ledger, policy


# --- by hand --------------------------------------------------------------------------------------------


def free_of(node: Node, runs: list[RunningGang]):
    """(cpu, GPUs: whole ones, thousandths, or masks of slices; by number, or sorted if they have none)."""
    whole = 255 if node.sharing == "mig" else 1000
    cpu, gpus, taken = node.capacity["cpu"], [whole] * node.capacity["gpu"], 0
    for gang in runs:
        [demand] = gang.demands
        names, devices = gang.placement.nodes["worker"], gang.placement.devices.get("worker", ())
        for number, name in enumerate(names):
            if name != node.name:
                continue
            if demand.whole_node:
                return 0, [0] * len(gpus)
            cpu -= demand.resources.get("cpu", 0)
            taken += demand.resources.get("gpu", 0)
            for device in devices[number] if devices else ():
                _take(gpus, demand, device)
    return cpu, gpus if node.sharing else [1000] * (len(gpus) - taken)


def _take(gpus, demand, device):
    [asked] = [name for name in demand.resources if name != "cpu" and demand.resources[name]]
    if asked in PLACES:
        gpu, start = gpu_and_start(device)
        bits = ((1 << PLACES[asked][0]) - 1) << start
        assert start in PLACES[asked][1]
        assert gpus[gpu] & bits == bits, "a slice is given twice"
        gpus[gpu] -= bits
    else:
        gpus[device] -= demand.resources.get("gpu-milli", 1000)
        assert gpus[device] >= 0, "a GPU is given twice"


def capacity_for(node: Node, runs: list[RunningGang], demand: Demand) -> int:
    """Number of replicas that the node could take, by trying everything."""
    cpu, gpus = free_of(node, runs)
    asked = dict(demand.resources)
    if node.name in demand.avoid or (demand.affinity and node.labels["gpu-type"] == "T4"):
        return 0
    if demand.whole_node and any(node.name in gang.placement.nodes["worker"] for gang in runs if _holds(gang)):
        return 0
    by_cpu = cpu // asked["cpu"] if asked["cpu"] else demand.count
    return min(
        by_cpu, _by_gpus(node.sharing, tuple(gpus), asked, demand.count), 1 if demand.whole_node else demand.count
    )


def _holds(gang):
    return any(gang.demands[0].resources.values()) or gang.demands[0].whole_node


def _by_gpus(sharing, gpus, asked, count):
    [(kind, amount)] = [item for item in asked.items() if item[0] != "cpu" and item[1]] or [("", 0)]
    if not kind:
        return count
    if kind == "gpu":
        return 0 if sharing == "mig" else sum(gpu == 1000 for gpu in gpus) // amount
    if kind == "gpu-milli":
        return sum(gpu // amount for gpu in gpus) if sharing == "milli" else 0
    return sum(_instances(gpu, kind) for gpu in gpus) // amount if sharing == "mig" else 0


@cache
def _instances(mask, profile):
    """The maximum number of instances over all choices of places."""
    slices, starts = PLACES[profile]
    places = [((1 << slices) - 1) << start for start in starts]
    return max((1 + _instances(mask - bits, profile) for bits in places if mask & bits == bits), default=0)


# --- exact ----------------------------------------------------------------------------------------------


@given(scenes(), demands())
@depth(400)
def test_a_gang_of_equal_members_is_placed_exactly_if_it_fits(scene, demand):
    ledger, policy = scene
    before = ledger.snapshot()
    runs = list(before.running.values())
    nodes = before.table.nodes
    wants_gpus = any(amount for name, amount in demand.resources.items() if name != "cpu")
    models = demand.gpu_types if wants_gpus and demand.gpu_types else (None,)
    possible = [
        model
        for model in models
        if sum(capacity_for(node, runs, demand) for node in nodes if model in (None, node.labels["gpu-type"]))
        >= demand.count
    ]
    found = run(ledger, demand, 99, policy)
    assert (found is not None) == bool(possible) == fits(before.free, before.table, (demand,))
    assert snapshot_violations(ledger.snapshot()) == []
    if found is not None:
        used = {before.table.nodes[before.table.row[name]].labels["gpu-type"] for name in found.placement.distinct()}
        assert models == (None,) or used == {possible[0]}, "the first model of those that have room"
        for node in nodes:
            free_of(node, list(ledger.snapshot().running.values()))


@given(st.integers(0, MASKS - 1))
def test_the_count_of_instances_is_the_maximum_over_all_choices_of_places(mask):
    geometry = GEOMETRIES["A100-40GB"]
    for number, profile in enumerate(geometry.profiles):
        assert geometry.instances_left[mask, number] == _instances(mask, f"mig-{profile.name}")


@given(scenes())
@depth(100)
def test_all_releases_together_restore_the_whole(scene):
    ledger, _ = scene
    for job_id in list(ledger.snapshot().running):
        ledger.release(job_id)
    snapshot = ledger.snapshot()
    assert (snapshot.free == snapshot.table.capacity).all()


# --- irrelevant differences, and additions that must not harm -------------------------------------------------------


@given(
    clusters(),
    st.lists(demands(), max_size=6),
    st.sampled_from([Policy(), LOOKING_AHEAD]),
    st.randoms(use_true_random=False),
)
@depth(100)
def test_names_and_the_order_of_nodes_do_not_matter(nodes, gangs_, policy, chance):
    def placements(nodes, gangs_):
        ledger = Ledger(nodes, ())
        return [found and found.placement for found in (run(ledger, d, n, policy) for n, d in enumerate(gangs_))]

    renamed = [replace(node, name=node.name.replace("n", "host-")) for node in nodes]
    asked = [replace(d, avoid=tuple(name.replace("n", "host-") for name in d.avoid)) for d in gangs_]
    chance.shuffle(renamed)
    assert str(placements(renamed, asked)).replace("host-", "n") == str(placements(nodes, gangs_))


@given(scenes(), demands(), st.data())
@depth(150)
def test_an_additional_idle_node_never_blocks_a_gang(scene, demand, data):
    ledger, policy = scene
    snapshot = ledger.snapshot()
    fitted = place(snapshot.free, snapshot.table, (demand,), None, policy) is not None
    ledger.set_cluster([*snapshot.table.nodes, _node(data.draw, "n9")], ())
    more = ledger.snapshot()
    assert snapshot_violations(more) == []
    assert not fitted or place(more.free, more.table, (demand,), None, policy) is not None
