"""Failures of members beside an unreachable node: when the node is blamed, and when the program."""

from dataclasses import replace

import pytest

from windlass.controller.node_losses import UnreachableNodes
from windlass.core.lifecycle.events import Exit, MemberExited, NodeLost
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.node import Node
from windlass.core.model.status import JobState, Phase, Placement, Status
from windlass.core.nodes.node_health import DETECTION_MS, PEER_FAILURE_MS

NODES = [Node(f"n{number}", {"gpu": 1}) for number in range(10)]
ERROR = MemberExited(1, 0, Exit(code=3))
SINCE = 1_000_000


def gang(policy: RestartPolicy | None = None) -> JobState:
    job = Job("j", (Role("main", 2),), restart=policy or RestartPolicy())
    status = Status(Phase.RUNNING, generation=1, placement=Placement({"main": ("n1", "n2")}), is_gone=False)
    return JobState("j", 1, job, status)


def nodes_without(*unreachable: str) -> UnreachableNodes:
    """The nodes after these have become unreachable."""
    found = UnreachableNodes()
    found.observe(
        [replace(node, ready=False, unreachable_since=SINCE) if node.name in unreachable else node for node in NODES],
        SINCE,
    )
    return found


def test_a_plain_error_beside_an_unreachable_node_is_its_loss() -> None:
    event = nodes_without("n2").blame(gang(), ERROR, SINCE + 5)
    assert isinstance(event, NodeLost)
    assert event.node == "n2"


@pytest.mark.parametrize(
    "policy",
    [
        RestartPolicy(fatal_exit_codes=(3,)),
        RestartPolicy(retryable_exit_codes=(3,)),
        RestartPolicy(restarts_after_exit=False),
    ],
)
def test_the_policy_of_the_job_precedes_the_blame(policy: RestartPolicy) -> None:
    assert nodes_without("n2").blame(gang(policy), ERROR, SINCE + 5) is ERROR


def test_no_node_is_blamed_during_an_outage() -> None:
    outage = nodes_without("n0", "n1", "n2", "n3", "n4", "n5")
    assert outage.blame(gang(), ERROR, SINCE + 5) is ERROR


def test_an_error_long_after_a_node_became_unreachable_is_the_programs() -> None:
    found = nodes_without("n2")
    assert isinstance(found.blame(gang(), ERROR, SINCE + PEER_FAILURE_MS), NodeLost)
    assert found.blame(gang(), ERROR, SINCE + PEER_FAILURE_MS + 1) is ERROR


def test_an_error_long_before_a_node_became_unreachable_is_the_programs() -> None:
    found, reported = nodes_without("n2"), SINCE + PEER_FAILURE_MS + 1
    early = replace(ERROR, at=SINCE - DETECTION_MS - 1)
    assert found.blame(gang(), early, reported) is early
    assert isinstance(found.blame(gang(), replace(ERROR, at=SINCE - DETECTION_MS), reported), NodeLost)


def test_an_error_of_an_earlier_generation_or_elsewhere_blames_no_node() -> None:
    old = replace(ERROR, generation=0)
    assert nodes_without("n2").blame(gang(), old, SINCE + 5) == old
    assert nodes_without("n3").blame(gang(), ERROR, SINCE + 5) is ERROR


def test_a_finish_time_in_the_future_is_taken_for_now() -> None:
    late = replace(ERROR, at=SINCE + 10 * PEER_FAILURE_MS)
    assert isinstance(nodes_without("n2").blame(gang(), late, SINCE + 5), NodeLost)
