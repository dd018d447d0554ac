"""A gang that is to restart on its nodes gives way to one that was admitted there in the meantime.

Its state after it gave the nodes back could not be written; a new controller reads the state before.
"""

from __future__ import annotations

from windlass.backends.port import ClusterChanged, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement


def running(number: int) -> JobState:
    job = Job("j", (Role(resources={"gpu": 2}),), restart=RestartPolicy(user_limit=1))
    state = step(create_state(f"j-{number}", number, job, 0), e.Submitted(), 0)[0]
    return step(step(state, e.Admit(Placement({"worker": ("n1",)})), 0)[0], e.Started(1), 0)[0]


def test_a_gang_whose_node_was_given_to_another_one_waits_in_the_queue():
    restarting = step(running(1), e.MemberExited(1, 0, e.Exit(code=1)), 5)[0]
    cluster = ClusterChanged((Node("n1", {"gpu": 2}),), (Queue("default"),))
    controller = Controller(Recovery(cluster, (restarting, running(2))), lambda _: None)
    controller.take_over(10)
    changes = controller.turn([JobEvent("j-1", e.GangGone(1))], 11)
    assert not [command for command in changes.commands if isinstance(command, Launch)]
    phases = {job_id: state.status.phase for job_id, state in controller.states.items()}
    assert phases == {"j-1": Phase.QUEUED, "j-2": Phase.RUNNING}
