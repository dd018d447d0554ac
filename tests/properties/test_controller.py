"""Every job ends and no node stays allocated, whatever happens and whenever the controller is killed.

The real controller drives a backend in memory that keeps the port's contract. Hypothesis chooses jobs and faults; the
invariants are checked after every turn, and the ledger has for each gang what its processes were started with, whatever
its owner has changed since.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.backends.port import BackendEvent, Changes, ClusterChanged, JobArrived, JobChanged, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.invariants import snapshot_violations
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.model.job import ArrayMember, Dependency, Job, RestartPolicy, Role
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import PERMANENT_REASONS, Reason
from windlass.core.model.status import TERMINAL, JobState, Phase

NODES = tuple(Node(f"n{number}", {"gpu": 4, "cpu": 8_000}) for number in range(1, 4))
QUEUES = (
    Queue("default"),
    Queue("small", {"gpu": 3}),
    Queue("all"),
    Queue("a", {"gpu": 4}, "all"),
    Queue("b", {}, "all"),
)
POLICY = Policy(min_runtime=2_000, resize_interval=3_000)


@dataclass
class MemoryBackend:
    """A backend in memory: what is stored and alive, and events that were not delivered yet."""

    nodes: tuple[Node, ...] = NODES
    refuses: bool = True
    """Whether the controller refuses jobs that could never run."""
    now: int = 0
    stored: dict[str, JobState] = field(default_factory=dict)
    alive: dict[str, int] = field(default_factory=dict)
    running: dict[str, set[int]] = field(default_factory=dict)
    started_as: dict[str, Job] = field(default_factory=dict)
    """By living gang: the job with which its processes were started."""
    undelivered: list[BackendEvent] = field(default_factory=list)

    def new_controller(self) -> Controller:
        return Controller(self.recovery(), partial(_ended, self), refuses=self.refuses)

    def recovery(self) -> Recovery:
        live = tuple(state for state in self.stored.values() if state.status.phase not in TERMINAL)
        return Recovery(self.cluster(), live)

    def cluster(self) -> ClusterChanged:
        return ClusterChanged(self.nodes, QUEUES, policy=POLICY)

    def commit(self, changes: Changes) -> None:
        self.stored.update({state.id: state for state in changes.states})

    def perform(self, command: Command) -> None:
        if isinstance(command, Launch) and self.alive.get(command.job_id) != command.generation:
            assert command.job_id not in self.alive, "two generations of a gang alive"
            closed = {node.name for node in self.nodes if node.cordoned or not node.ready}
            open_nodes = {node.name for node in self.nodes} - closed
            assert set(command.placement.distinct()) <= open_nodes, "a start on a closed node"
            self.alive[command.job_id] = command.generation
            self.started_as[command.job_id] = self.stored[command.job_id].job
            self.running[command.job_id] = set(range(sum(map(len, command.placement.nodes.values()))))
            self._report(command.job_id, e.Started(command.generation))
        if isinstance(command, Stop):
            if self.alive.get(command.job_id) == command.generation:
                del self.alive[command.job_id]
            self._report(command.job_id, e.GangGone(command.generation))

    def end_member(self, job_id: str, rng: random.Random, *, calm: bool) -> None:
        member = rng.choice(sorted(self.running[job_id]))
        self.running[job_id].discard(member)
        kinds = [e.Exit(code=0)] if calm else [e.Exit(code=0), e.Exit(code=1), e.Exit(signal=9), e.Exit(code=83)]
        self._report(job_id, e.MemberExited(self.alive[job_id], member, rng.choice(kinds)))

    def _report(self, job_id: str, event: e.Event) -> None:
        self.undelivered.append(JobEvent(job_id, event))


jobs = st.builds(
    Job,
    name=st.just("j"),
    roles=st.builds(
        lambda replicas, gpu, least: (
            Role("worker", replicas, 1, {"gpu": gpu, "cpu": 500}, **_bounds(replicas, least)),
        ),
        st.integers(1, 6),
        st.integers(0, 5),
        st.sampled_from([None, None, 1, 2]),
    ),
    queue=st.sampled_from(["default", "default", "small", "a", "b"]),
    priority=st.integers(0, 2),
    walltime=st.sampled_from([None, 20_000]),
    restart=st.builds(RestartPolicy, user_limit=st.integers(0, 2), infrastructure_limit=st.integers(0, 3)),
    suspend=st.sampled_from([False, False, False, True]),
    array=st.sampled_from([None, None, ArrayMember("s-1", 0, 1)]),
    preemptible=st.sampled_from([True, True, False]),
)


def _bounds(replicas: int, least: int | None) -> dict[str, int]:
    """Returns the bounds of an elastic role as in job files: it requests its maximum."""
    return {} if least is None or least > replicas else {"min_replicas": least, "max_replicas": replicas}


@depth(60)
@given(
    st.lists(jobs, min_size=1, max_size=8),
    st.integers(0, 2**32),
    st.booleans(),
    st.lists(jobs, max_size=8),
)
def test_every_job_ends_and_releases_its_nodes(
    wanted: list[Job], seed: int, in_sequence: bool, edits: list[Job]
) -> None:
    backend = MemoryBackend()
    controller = _play(backend, wanted, edits, seed, in_sequence=in_sequence)
    assert {state.status.phase for state in backend.stored.values()} <= TERMINAL
    for state in backend.stored.values():
        met = all(backend.stored[d.job_id].status.phase is Phase.SUCCEEDED for d in state.job.after)
        assert not (met and state.status.reason == "DependencyFailed")
    _assert_everything_released(controller, backend)


@depth(60)
@given(st.lists(jobs, min_size=1, max_size=8), st.integers(0, 2**32), st.lists(jobs, max_size=8))
def test_an_impossible_job_that_is_not_refused_waits_alone_and_says_why(
    wanted: list[Job], seed: int, edits: list[Job]
) -> None:
    backend = MemoryBackend(refuses=False)
    controller = _play(backend, wanted, edits, seed, in_sequence=False)
    waiting = {state.id: state for state in backend.stored.values() if state.status.phase not in TERMINAL}
    for state in waiting.values():
        assert state.status.phase is Phase.QUEUED
        assert controller.refusal(state.job) is not None
        assert _verdict(controller, state.id) == _verdict_of_a_new_job(state.job)
    _assert_everything_released(controller, backend)


def _verdict(controller: Controller, job_id: str) -> tuple[Reason, str]:
    verdict = controller.plan.verdicts[job_id]
    assert verdict.reason in PERMANENT_REASONS
    return verdict.reason, verdict.message


def _verdict_of_a_new_job(job: Job) -> tuple[Reason, str]:
    alone = Controller(MemoryBackend().recovery(), lambda _job_id: None, refuses=False)
    alone.turn([JobArrived("new-1", 1, replace(job, suspend=False))], 0)
    return _verdict(alone, "new-1")


def _play(backend: MemoryBackend, wanted: list[Job], edits: list[Job], seed: int, *, in_sequence: bool) -> Controller:
    """Plays jobs, edits and faults, and then enough turns without faults for every job that can end."""
    rng, edits = random.Random(seed), list(edits)  # noqa: S311 - not for secrets
    controller = backend.new_controller()
    for number, job in enumerate(wanted, start=1):
        after = (Dependency(f"j-{number - 1}"),) if in_sequence and number > 1 else ()
        backend.undelivered.append(JobArrived(f"j-{number}", number, replace(job, after=after)))
    for _ in range(60):
        if edits and rng.random() < 0.2:
            _edit(backend, f"j-{rng.randint(1, len(wanted))}", edits.pop(), rng)
        controller = _play_turn(controller, backend, rng, calm=False)
    for job_id in list(backend.stored):
        backend.undelivered.append(JobEvent(job_id, e.Resume()))
    for _ in range(600):
        controller = _play_turn(controller, backend, rng, calm=True)
    return controller


def _assert_everything_released(controller: Controller, backend: MemoryBackend) -> None:
    assert not backend.alive
    assert (controller.snapshot().free == controller.snapshot().table.capacity).all()


def _edit(backend: MemoryBackend, job_id: str, requested: Job, rng: random.Random) -> None:
    """The owner changes a part of the job, in the same size or in another one."""
    state = backend.stored.get(job_id)
    if state is None:
        return
    (role,), (wanted,) = state.job.roles, requested.roles
    roles = rng.choice([(replace(role, resources=wanted.resources),), requested.roles, state.job.roles])
    part = rng.choice([{"queue": requested.queue, "array": requested.array}, {"priority": requested.priority}, {}])
    rest = rng.choice([{"walltime": requested.walltime}, {"preemptible": requested.preemptible}, {}])
    backend.undelivered.append(JobChanged(job_id, replace(state.job, roles=roles, **part, **rest)))


def _assert_books_equal_processes(controller: Controller, backend: MemoryBackend) -> None:
    """The ledger has for each gang what its processes were started with, and no rights that they had not."""
    running = controller.snapshot().running
    for job_id in backend.alive.keys() & running.keys():
        started, held = backend.started_as[job_id], running[job_id]
        charged = (started.queue, started.roles[0].resources, started.array.array_id if started.array else "")
        assert (held.queue, held.demands[0].resources, held.array_id) == charged
        assert held.priority <= started.priority
        assert held.preemptible or not started.preemptible
        assert started.walltime is None or held.ends_by is not None


def _ended(backend: MemoryBackend, job_id: str) -> JobState | None:
    state = backend.stored.get(job_id)
    return state if state is not None and state.status.phase in TERMINAL else None


def _play_turn(controller: Controller, backend: MemoryBackend, rng: random.Random, *, calm: bool) -> Controller:
    """Plays one turn; the controller may die before its commit, after its commit, or after its commands."""
    _disturb(backend, rng, calm=calm)
    events, backend.undelivered = backend.undelivered, []
    changes = controller.turn(events, backend.now)
    death = None if calm else rng.choice([None] * 6 + ["undelivered", "committed", "performed"])
    if death == "undelivered":
        backend.undelivered = events + backend.undelivered
        return _recover(backend)
    backend.commit(changes)
    assert snapshot_violations(controller.snapshot(), controller.states) == []
    for command in changes.commands if death != "committed" else ():
        backend.perform(command)
    _assert_books_equal_processes(controller, backend)
    return _recover(backend) if death else controller


def _recover(backend: MemoryBackend) -> Controller:
    controller = backend.new_controller()
    changes = controller.take_over(backend.now)
    backend.commit(changes)
    assert snapshot_violations(controller.snapshot(), controller.states) == []
    for command in changes.commands:
        backend.perform(command)
    return controller


def _disturb(backend: MemoryBackend, rng: random.Random, *, calm: bool) -> None:
    backend.now += rng.choice([0, 1, 500, 5_000])
    busy = [job_id for job_id in sorted(backend.alive) if backend.running[job_id]]
    if busy and (calm or rng.random() < 0.7):
        backend.end_member(rng.choice(busy), rng, calm=calm)
    if not calm and backend.stored:
        known = sorted(backend.stored)
        for event in (e.Cancel(), e.Kill(), e.Suspend(), e.Resume(), e.Preempt("for another")):
            if rng.random() < 0.06:
                backend.undelivered.append(JobEvent(rng.choice(known), event))
        if backend.alive and rng.random() < 0.2:
            job_id = rng.choice(sorted(backend.alive))
            backend.undelivered.append(JobEvent(job_id, e.Saved(backend.alive[job_id], backend.now)))
    if not calm and rng.random() < 0.15:
        first = NODES[0]
        faulty = [
            NODES[1:],
            (replace(first, ready=False), *NODES[1:]),
            (replace(first, cordoned="Xid 79"), *NODES[1:]),
        ]
        backend.nodes = NODES if backend.nodes != NODES else rng.choice(faulty)
        backend.undelivered.append(backend.cluster())
    if calm and backend.nodes != NODES:
        backend.nodes = NODES
        backend.undelivered.append(backend.cluster())


def test_a_rejected_job_never_queues() -> None:
    backend = MemoryBackend()
    controller = backend.new_controller()
    big = Job("big", (Role(replicas=4, resources={"gpu": 4}),))
    backend.commit(controller.turn([JobArrived("big-1", 1, big)], 0))
    status = backend.stored["big-1"].status
    assert (status.phase, status.reason) == (Phase.FAILED, "Misconfigured")
    assert "largest gang that fits: 3 replicas of 4 gpu" in status.message


def test_a_start_withdrawn_in_the_same_turn_is_not_performed() -> None:
    controller = Controller(Recovery(ClusterChanged(NODES, QUEUES)), lambda _job_id: None)
    job = Job("j", (Role(resources={"gpu": 1}),), restart=RestartPolicy(infrastructure_limit=3))
    (launch,) = controller.turn([JobArrived("j-1", 1, job)], 0).commands
    assert isinstance(launch, Launch)
    (node,) = launch.placement.distinct()
    controller.turn([JobEvent("j-1", e.Started(1)), JobEvent("j-1", e.MemberExited(1, 0, e.Exit(signal=9)))], 1)
    left = tuple(each for each in NODES if each.name != node)
    commands = controller.turn([JobEvent("j-1", e.GangGone(1)), ClusterChanged(left, QUEUES)], 2).commands
    assert [type(command) for command in commands] == [Stop]


def test_a_checkpoint_alone_causes_no_new_plan() -> None:
    controller = Controller(Recovery(ClusterChanged(NODES, QUEUES)), lambda _job_id: None)
    controller.turn([JobArrived("j-1", 1, Job("j", (Role(resources={"gpu": 1}),)))], 0)
    controller.turn([JobEvent("j-1", e.Started(1))], 1)
    plan = controller.plan
    controller.turn([JobEvent("j-1", e.Saved(1, 2))], 2)
    assert controller.plan is plan
    controller.turn([JobArrived("j-2", 2, Job("k", (Role(resources={"gpu": 1}),)))], 3)
    assert controller.snapshot().running["j-1"].saved_at == 2
