"""Each rule of the witness reports the history that breaks it, and none reports a history without a fault."""

from __future__ import annotations

import pytest

from .cluster_view import Verb
from .histories import History, deleted, group_pod, job, node, pod
from .judge import BIND_WINDOW_S
from .rules import UNDER_WAY_S

LONG = BIND_WINDOW_S + 1


def running(history: History, *, generation: int = 1) -> None:
    """A gang of two is admitted, bound and runs."""
    names = ("digits-0", "digits-1")
    history.seen(node(), job(), *(pod(name, generation=generation) for name in names))
    history.seen(job(phase="Admitted"), *(pod(name, "n1", generation=generation) for name in names))
    history.seen(*(pod(name, "n1", "Running", generation=generation) for name in names))
    history.seen(job("digits", 2, "Running", "Running"))


def succeeded(history: History) -> None:
    history.seen(*(pod(name, "n1", "Succeeded") for name in ("digits-0", "digits-1")))
    history.seen(job("digits", 2, "Succeeded", "Succeeded"))


def test_a_gang_that_runs_and_succeeds_violates_nothing() -> None:
    history = History()
    running(history)
    succeeded(history)
    history.gone(deleted(pod("digits-0", "n1", "Succeeded")))
    history.passes(LONG)
    assert history.rules_at_the_end() == set()


def test_a_gang_whose_pod_fails_may_be_stopped_and_started_again() -> None:
    history = History()
    running(history)
    history.seen(pod("digits-0", "n1", "Failed"))
    history.seen(deleted(pod("digits-1", "n1", "Running")))
    history.gone(deleted(pod("digits-1", "n1", "Running")))
    history.gone(deleted(pod("digits-0", "n1", "Failed")))
    running(history, generation=2)
    history.seen(*(pod(name, "n1", "Succeeded", generation=2) for name in ("digits-0", "digits-1")))
    history.seen(job("digits", 2, "Succeeded", "Succeeded"))
    assert history.rules_at_the_end() == set()


def test_a_node_with_more_pods_than_devices_is_reported_at_once() -> None:
    history = History()
    history.seen(node(devices=1), group_pod("group-0", "n1"))
    assert history.rules() == set()
    history.seen(group_pod("group-1", "n1"))
    assert history.rules() == {"over_allocated_node"}
    violation = history.judge.violations["over_allocated_node", "n1"]
    assert violation.text == "its pods hold 2 devices, and it has 1"
    assert [line.partition("s  ")[2] for line in violation.trail] == [
        "node n1: 1 devices, ready",
        "pod group-0 on n1: Pending, version 2",
        "pod group-1 on n1: Pending, version 3",
    ]


def test_a_pod_that_has_ended_holds_no_device() -> None:
    history = History()
    history.seen(node(devices=1), group_pod("group-0", "n1", "Succeeded"), group_pod("group-1", "n1"))
    assert history.rules() == set()


def test_objects_of_a_list_are_judged_together() -> None:
    """A pod that was replaced while the watch was away does not count beside its successor."""
    history = History()
    history.seen(node(devices=1), group_pod("group-0", "n1", "Running"))
    history.seen(group_pod("group-0", "n1", "Succeeded"))
    history.seen(pod("digits-0", "n1", "Running"))
    history.observe(Verb.BLIND, "Pod")
    history.observe(Verb.LISTED, "Pod", group_pod("group-0", "n1", "Succeeded"), pod("digits-1", "n1", "Running"))
    assert history.rules() == set()


def test_pods_of_two_generations_that_run_together_are_reported() -> None:
    history = History()
    running(history)
    history.seen(deleted(pod("digits-0", "n1", "Running")), pod("digits-0", "n1", generation=2))
    assert history.rules() == set()
    history.seen(pod("digits-0", "n1", "Running", generation=2))
    assert "two_generations" in history.rules()


def test_more_live_pods_than_the_size_of_a_gang_are_reported() -> None:
    history = History()
    running(history)
    history.seen(pod("digits-2"))
    assert history.rules() == {"too_many_pods"}


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [("Running", ("Running",)), ("Failed", ("Failed",)), ("Failed", ("Succeeded", "Failed"))],
    ids=["withdrawn", "replaced", "contradicted"],
)
def test_an_end_that_changes_is_reported(phase: str, conditions: tuple[str, ...]) -> None:
    history = History()
    running(history)
    succeeded(history)
    history.seen(job("digits", 2, phase, *conditions))
    assert "changed_end" in history.rules()


def test_an_ended_job_that_says_it_runs_is_reported() -> None:
    history = History()
    running(history)
    history.seen(job("digits", 2, "Succeeded", "Succeeded", "Running"))
    assert "changed_end" in history.rules()


def test_a_job_that_ends_otherwise_than_its_program_is_reported() -> None:
    history = History()
    running(history)
    history.seen(job("digits", 2, "Failed", "Failed"))
    assert history.rules() == {"wrong_end"}


def test_a_pod_that_ends_otherwise_than_its_program_is_reported() -> None:
    history = History()
    history.seen(group_pod("group-0", "n1", "Failed"))
    assert history.rules() == {"wrong_end"}


def test_a_pod_without_an_owner_may_fail_when_its_node_did_not_see_its_end() -> None:
    history = History()
    lost = group_pod("group-0", "n1", "Failed")
    ends = {"terminated": {"exitCode": 255, "reason": "Unknown"}}
    lost["status"]["containerStatuses"] = [{"name": "main", "state": ends}]
    history.seen(lost)
    assert history.rules() == set()
    assert "pod group-0 on n1: Failed (main 255 Unknown), version" in str(history.judge.view.pods.popitem()[1])


def test_a_job_that_disappears_is_reported() -> None:
    history = History()
    running(history)
    history.gone(job())
    assert history.rules() == {"lost_object"}


def test_a_job_that_is_missing_from_a_list_is_reported() -> None:
    history = History()
    running(history)
    history.observe(Verb.LISTED, "TrainingJob")
    assert history.rules() == {"lost_object"}


def test_a_pod_without_an_owner_that_disappears_before_its_end_is_reported() -> None:
    history = History()
    history.seen(node(), *(group_pod(f"group-{index}", "n1", "Running") for index in range(2)))
    history.seen(group_pod("group-0", "n1", "Succeeded"))
    history.gone(group_pod("group-0", "n1", "Succeeded"))
    assert history.rules() == set()
    history.gone(group_pod("group-1", "n1", "Running"))
    assert history.rules() == {"lost_object"}


@pytest.mark.parametrize("owned", [True, False])
def test_a_gang_that_stays_partly_bound_is_reported(owned: bool) -> None:
    history = History()
    made = (pod("digits-0", "n1"), pod("digits-1")) if owned else (group_pod("group-0", "n1"), group_pod("group-1"))
    history.seen(node(), *([job(phase="Admitted")] if owned else []), *made)
    history.passes(BIND_WINDOW_S - 1)
    assert history.rules() == set()
    history.passes(2)
    assert history.rules() == {"partly_bound_gang"}


def test_a_gang_that_is_bound_within_the_window_is_not_reported() -> None:
    history = History()
    history.seen(node(), group_pod("group-0", "n1"), group_pod("group-1"))
    history.passes(BIND_WINDOW_S - 1)
    history.seen(group_pod("group-1", "n1"))
    history.passes(LONG)
    assert history.rules() == set()


def test_a_pod_that_is_replaced_alone_does_not_make_its_gang_partly_bound() -> None:
    history = History()
    running(history)
    history.gone(deleted(pod("digits-0", "n1", "Failed")))
    history.seen(pod("digits-0", generation=1))
    assert not [each for each in history.judge.lasting_findings() if each[0] == "partly_bound_gang"]


def test_time_during_a_fault_or_without_a_watch_does_not_count() -> None:
    history = History()
    history.seen(node(), group_pod("group-0", "n1"), group_pod("group-1"))
    history.observe(Verb.DISTURBED, "etcd_killed")
    history.passes(LONG)
    history.observe(Verb.CALM, "etcd_killed")
    history.observe(Verb.BLIND, "Node")
    history.passes(LONG)
    history.observe(Verb.LISTED, "Node", node())
    assert history.rules() == set()
    history.passes(LONG)
    assert history.rules() == {"partly_bound_gang"}


@pytest.mark.parametrize(
    "status",
    [
        job("digits", 2, "Queued"),
        job("digits", 2, "Succeeded", "Succeeded"),
        job("digits", 2, "Running", "Running", replicaStatuses={"Worker": {"active": 1}}),
    ],
    ids=["queued while it runs", "ended while it runs", "wrong count"],
)
def test_a_status_that_stays_untrue_is_reported(status: dict[str, object]) -> None:
    history = History()
    running(history)
    history.seen(status)
    history.passes(1)
    assert history.rules() == set()
    history.passes(LONG)
    assert history.rules() == {"untrue_status"}


def test_a_job_that_says_it_runs_without_all_its_pods_is_reported() -> None:
    history = History()
    history.seen(node(), job("digits", 2, "Running", "Running"), pod("digits-0", "n1", "Running"))
    history.passes(LONG)
    assert "untrue_status" in history.rules()


@pytest.mark.parametrize("owned", [True, False])
def test_a_job_or_pod_that_never_ends_is_reported_at_the_end(owned: bool) -> None:
    history = History()
    history.seen(job() if owned else group_pod("group-0"))
    assert history.rules() == set()
    assert history.judge.unfinished()
    assert history.rules_at_the_end() == {"job_without_end"}


def test_a_pod_created_after_the_end_of_its_job_is_reported_at_the_end() -> None:
    history = History()
    running(history)
    succeeded(history)
    history.seen(pod("digits-0", generation=2))
    assert "started_after_end" not in history.rules_at_the_end(), "its creation may have been under way"
    history.passes(UNDER_WAY_S)
    history.seen(pod("digits-1", generation=2))
    assert "started_after_end" in history.rules_at_the_end()


def test_a_running_pod_that_is_stopped_without_a_cause_is_reported_at_the_end() -> None:
    history = History()
    running(history)
    history.seen(deleted(pod("digits-0", "n1", "Running")))
    history.seen(deleted(pod("digits-0", "n1", "Failed")))
    history.seen(job("digits", 2, "Restarting"))
    running(history, generation=2)
    history.judge.violations.clear()
    assert "stopped_without_cause" in history.rules_at_the_end()


def test_a_gang_that_does_not_run_yet_by_its_status_may_be_withdrawn() -> None:
    history = History()
    history.seen(node(), job(phase="Admitted"), *(pod(name, "n1", "Running") for name in ("digits-0", "digits-1")))
    history.seen(deleted(pod("digits-0", "n1", "Running")), job("digits", 2, "Restarting"))
    assert "stopped_without_cause" not in history.rules_at_the_end()


def test_a_running_pod_may_be_stopped_after_the_end_of_its_job() -> None:
    history = History()
    running(history)
    history.seen(pod("digits-0", "n1", "Succeeded"))
    history.seen(job("digits", 2, "Succeeded", "Succeeded"))
    history.seen(deleted(pod("digits-1", "n1", "Running")))
    history.gone(deleted(pod("digits-1", "n1", "Running")))
    assert history.rules_at_the_end() == set()


def test_a_pod_on_a_node_that_was_not_ready_may_be_stopped() -> None:
    history = History()
    running(history)
    history.seen(node(ready=False), deleted(pod("digits-0", "n1", "Running")), job("digits", 2, "Restarting"))
    assert "stopped_without_cause" not in history.rules_at_the_end()


def test_a_success_without_a_pod_that_succeeded_is_reported_at_the_end() -> None:
    history = History()
    history.seen(node(), job(), pod("digits-0"), pod("digits-1"))
    history.seen(job("digits", 2, "Succeeded", "Succeeded"))
    assert history.rules_at_the_end() == {"success_without_pods"}
