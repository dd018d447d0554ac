"""No sequence of preemptions, reclaims and resizes is a cycle: without new jobs, the cluster comes to rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.backends.port import BackendEvent, Changes, ClusterChanged, JobArrived, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue

NODES = tuple(Node(f"n{number}", {"gpu": 4}) for number in range(1, 4))
TREE = (
    Queue("all"),
    Queue("team", {"gpu": 2}, "all"),
    Queue("a", {"gpu": 3}, "team"),
    Queue("b", {"gpu": 2}, "team", weight=2),
    Queue("c", {"gpu": 5}, "all", max_running=2),
    Queue("d", {}, "all"),
)
ROUNDS = 60
"""Many more than are needed; a cycle would not end."""


@dataclass
class EndlessJobs:
    """A backend where jobs start and stop as commanded, and never end by themselves."""

    controller: Controller
    now: int = 0
    events: list[BackendEvent] = field(default_factory=list)

    def turn(self) -> Changes:
        self.now += 1_000
        snapshot = self.controller.snapshot()
        assert plan_violations(snapshot, schedule(snapshot, self.now)) == []
        events, self.events = self.events, []
        changes = self.controller.turn(events, self.now)
        assert snapshot_violations(self.controller.snapshot(), self.controller.states) == []
        for command in changes.commands:
            started = isinstance(command, Launch)
            answer = e.Started(command.generation) if started else e.GangGone(command.generation)
            self.events.append(JobEvent(command.job_id, answer))
        return changes


jobs = st.builds(
    lambda replicas, gpu, least, **more: Job("j", (_role(replicas, gpu, least),), grace=5_000, **more),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([None, None, 1]),
    queue=st.sampled_from([queue.name for queue in TREE] + ["default"]),
    priority=st.integers(0, 2),
    preemptible=st.sampled_from([True, True, True, False]),
)


def _role(replicas: int, gpu: int, least: int | None) -> Role:
    bounds = {} if least is None else {"min_replicas": least, "max_replicas": replicas}
    return Role("worker", replicas, 1, {"gpu": gpu}, **bounds)


@depth(30)
@given(st.lists(jobs, min_size=2, max_size=9), st.sampled_from(["windlass", "fair", "priority"]), st.integers(1, 4))
def test_a_cluster_without_new_or_ended_jobs_comes_to_rest(wanted: list[Job], order: str, every: int) -> None:
    policy = Policy(order=order, min_runtime=0, resize_interval=0)
    backend = EndlessJobs(Controller(Recovery(ClusterChanged(NODES, TREE, policy=policy)), lambda _: None))
    for number, job in enumerate(wanted, start=1):
        backend.events.append(JobArrived(f"j-{number}", number, job))
        for _ in range(number % every):
            backend.turn()
    changed = [bool(backend.turn().states) for _ in range(ROUNDS)]
    assert not any(changed[-10:])
