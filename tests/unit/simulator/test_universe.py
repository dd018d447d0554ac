"""The simulated cluster: a launch that was planned before the last change of the nodes."""

from __future__ import annotations

from dataclasses import replace

from windlass.backends.port import ClusterChanged, JobEvent
from windlass.backends.simulator.script import Script
from windlass.backends.simulator.universe import Universe
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited
from windlass.core.lifecycle.failure import STALE_PLACEMENT
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import Placement

NODES = (Node("n1", {"gpu": 8}), Node("n2", {"gpu": 8}))
CLUSTER = ClusterChanged(NODES, (Queue("default"),))
JOB = Job("job", (Role(replicas=2, resources={"gpu": 8}),))


def test_a_launch_on_a_node_that_was_just_cordoned_comes_back_as_an_event() -> None:
    universe = Universe(CLUSTER, lambda _id, _job: Script(work=1_000))
    universe.states["job-1"] = create_state("job-1", 1, JOB, now=0)
    universe.declare(replace(CLUSTER, nodes=(NODES[0], replace(NODES[1], cordoned="drained"))))
    universe.gangs.launch("job-1", 1, Placement({"worker": ("n1", "n2")}))
    events = universe.timeline.take(None)
    lost = Exit(lost=True, end_class=STALE_PLACEMENT, detail="node n2 is cordoned (drained)")
    assert events[1:] == [JobEvent("job-1", MemberExited(1, 0, lost))]
    universe.gangs.stop("job-1", 1, 0)
    assert universe.timeline.take(None) == [JobEvent("job-1", GangGone(1))]
    assert not universe.gangs.contract_violations


def test_a_launch_on_nodes_that_still_fit_starts() -> None:
    universe = Universe(CLUSTER, lambda _id, _job: Script(work=1_000))
    universe.states["job-1"] = create_state("job-1", 1, JOB, now=0)
    universe.declare(replace(CLUSTER, queues=(Queue("default"), Queue("other"))))
    universe.gangs.launch("job-1", 1, Placement({"worker": ("n1", "n2")}))
    assert len(universe.timeline.take(None)) == 1
    assert sorted(universe.gangs.by_job["job-1"].alive) == [0, 1]
