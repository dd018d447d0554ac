"""Failures that the tests cause on real processes, fake nodes and real nodes, and the cause that each of them gets.

Each test of the table causes the failure, and checks the verdict that the job has without a request for it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

TESTS = Path(__file__).parents[1]
RULES_FOLDER = TESTS.parent / "src" / "windlass" / "diagnose" / "rules"
RULES: dict[str, dict[str, Any]] = {
    rule["id"]: rule for path in RULES_FOLDER.glob("*.yaml") for rule in yaml.safe_load(path.read_text("utf-8"))
}
PROCESSES = "processes/test_doctor_job.py"
FAKE_NODES, FAKE_WAITS = "kubernetes/operator/test_diagnosis.py", "kubernetes/operator/test_wait_verdicts.py"
FAKE_EVENTS = "kubernetes/operator/test_event_verdicts.py"
OF_EVENT = "test_an_event_about_a_pod_that_does_not_start_has_a_verdict"
ACTS = "processes/test_verdicts_that_act.py"
REAL_NODES = "kubernetes/e2e/test_verdicts_on_real_nodes.py"
OF_SCRIPT = "test_the_failure_of_a_script_has_its_verdict_at_the_end_of_the_run"
OF_PROCESS = "test_the_end_of_a_process_without_output_has_its_verdict"
ENDED, WAITS = "test_a_job_that_has_failed_has_its_verdict", "test_a_job_that_waits_has_its_verdict_and_goes_on_waiting"


class Place(NamedTuple):
    """A test, and the name of the failure among its parameters; "" if it has none."""

    file: str
    test: str
    name: str = ""


class Failure(NamedTuple):
    """A failure, the cause that its verdict names, the rules that may find it, and the tests that cause it."""

    what: str
    cause: str
    rules: tuple[str, ...]
    places: tuple[Place, ...]


def script(name: str) -> Place:
    return Place(PROCESSES, OF_SCRIPT, name)


def container(name: str, test: str = ENDED) -> Place:
    return Place(REAL_NODES, test, name)


FAILURES = (
    Failure(
        "killed rank",
        "host-out-of-memory",
        ("signal-9", "exit-137"),
        (Place(PROCESSES, "test_each_failed_attempt_of_a_job_is_diagnosed_and_the_job_goes_on"), container("killed")),
    ),
    Failure("memory of the host", "host-out-of-memory", ("host-allocation-failed",), (script("memory"),)),
    Failure(
        "memory limit of a container",
        "host-out-of-memory",
        ("host-oom-killed",),
        (Place(FAKE_NODES, "test_a_container_above_its_limit_of_memory_has_a_verdict"), container("hungry")),
    ),
    Failure("hang", "nccl-laggard-rank", ("gloo-timeout",), (script("hang"),)),
    Failure(
        "hang in the data loader",
        "dataloader-stuck",
        ("stack-rank-in-data",),
        (Place("train/test_hang_verdicts.py", "test_the_files_of_an_agent_name_the_late_rank_and_its_work", "data"),),
    ),
    Failure("loss that is not a number", "nan-or-inf", ("loss-not-finite",), (script("nan"),)),
    Failure("unknown rendezvous host", "rendezvous-dns", ("rendezvous-dns",), (script("rendezvous"),)),
    Failure("wrong world size", "wrong-world-size", ("world-size-environment",), (script("world size"),)),
    Failure("port in use", "port-in-use", ("rendezvous-port-in-use",), (script("port"), container("port-taken"))),
    Failure("full disk", "disk-full", ("disk-full",), (script("disk"), container("full-disk"))),
    Failure("small shared memory", "shm-too-small", ("shm-too-small",), (container("small-shm"),)),
    Failure(
        "missing package",
        "package-missing",
        ("package-missing",),
        (
            script("package"),
            Place(FAKE_NODES, "test_the_verdict_is_a_condition_an_event_and_part_of_the_history"),
            container("no-package"),
        ),
    ),
    Failure(
        "killed worker of a data loader",
        "dataloader-worker-died",
        ("dataloader-worker-killed", "dataloader-worker-exited", "dataloader-connection-lost"),
        (script("loader"),),
    ),
    Failure("file with the name of a module", "module-shadowed", ("module-shadowed",), (script("shadow"),)),
    Failure("wrong shape", "tensor-shape", ("tensor-shape",), (script("shape"),)),
    Failure("unreadable checkpoint", "checkpoint-corrupt", ("checkpoint-not-readable",), (script("checkpoint"),)),
    Failure(
        "error at the same step",
        "user-code-error",
        ("python-exception",),
        (Place(PROCESSES, "test_a_program_that_fails_in_each_attempt_has_the_verdict_on_the_last_one"),),
    ),
    Failure(
        "missing program",
        "launcher-arguments",
        ("executable-missing",),
        (Place(PROCESSES, OF_PROCESS, "executable-missing"), container("no-program")),
    ),
    Failure(
        "program without permission", "launcher-arguments", ("executable-missing",), (container("not-executable"),)
    ),
    Failure(
        "program of another format",
        "image-platform",
        ("exec-format",),
        (Place(PROCESSES, "test_a_file_that_cannot_be_run_has_its_verdict", "format"), container("wrong-format")),
    ),
    Failure("crash", "native-crash", ("process-segfault",), (Place(PROCESSES, OF_PROCESS, "process-segfault"),)),
    Failure(
        "walltime or deadline exceeded",
        "deadline-exceeded",
        ("deadline-exceeded",),
        (Place(PROCESSES, OF_PROCESS, "deadline-exceeded"), container("too-long")),
    ),
    Failure(
        "SIGTERM before work is saved",
        "killed-by-operator",
        ("signal-15",),
        (Place(PROCESSES, "test_a_program_that_sigterm_ends_before_it_has_saved_has_its_verdict"),),
    ),
    Failure(
        "preemption",
        "preempted",
        ("preempted",),
        (Place(PROCESSES, "test_a_preempted_job_and_a_waiting_job_are_explained"),),
    ),
    Failure(
        "lost node",
        "node-lost",
        ("node-lost",),
        (Place(FAKE_NODES, "test_an_attempt_whose_node_is_gone_has_a_verdict"),),
    ),
    Failure(
        "missing image",
        "image-pull",
        ("image-pull",),
        (
            Place(FAKE_WAITS, "test_an_image_that_cannot_be_pulled_is_told_while_its_pods_wait"),
            Place(FAKE_WAITS, "test_an_attempt_that_ends_by_the_start_timeout_is_blamed_on_its_image"),
            container("no-image", WAITS),
        ),
    ),
    Failure(
        "missing or unbound claim",
        "volume-claim",
        ("volume-claim",),
        (
            Place(FAKE_WAITS, "test_a_missing_claim_is_told_until_it_is_there"),
            container("no-claim", WAITS),
            container("unbound-claim", WAITS),
        ),
    ),
    Failure(
        "missing ConfigMap",
        "config-missing",
        ("config-missing",),
        (container("no-config", WAITS), container("no-map", WAITS), Place(FAKE_EVENTS, OF_EVENT, "configmap")),
    ),
    Failure(
        "volume that cannot be mounted or attached",
        "volume-mount",
        ("volume-mount",),
        (
            Place(FAKE_EVENTS, OF_EVENT, "mount"),
            Place(FAKE_EVENTS, OF_EVENT, "attach"),
            container("no-mount", WAITS),
        ),
    ),
    Failure("network of a pod", "pod-network", ("pod-sandbox",), (Place(FAKE_EVENTS, OF_EVENT, "sandbox"),)),
    Failure(
        "taint, by another scheduler",
        "taint-or-affinity",
        ("taint-or-affinity", "taint-of-gpu-nodes"),
        (Place(FAKE_EVENTS, "test_words_of_another_scheduler_in_events_alone_have_a_verdict"),),
    ),
    Failure(
        "webhook that denies the pods",
        "admission-webhook",
        ("admission-webhook",),
        (
            Place(FAKE_EVENTS, "test_a_webhook_that_denies_the_pods_is_told"),
            Place(FAKE_EVENTS, "test_a_launcher_whose_pod_its_job_cannot_create_is_told"),
        ),
    ),
    Failure(
        "rank that SIGKILL ends at the same step in each attempt",
        "host-out-of-memory",
        ("repeated-kill-at-step",),
        (Place(ACTS, "test_a_rank_that_kills_itself_at_the_same_step_ends_the_job"),),
    ),
    Failure(
        "ResourceQuota",
        "quota-exceeded",
        ("quota-exceeded",),
        (
            Place(FAKE_WAITS, "test_a_resource_quota_that_refuses_the_pods_is_told"),
            Place(REAL_NODES, "test_pods_that_a_resource_quota_refuses_are_told"),
        ),
    ),
    Failure(
        "quota of the queue",
        "quota-exceeded",
        ("queue-quota-too-small",),
        (Place(FAKE_WAITS, "test_a_job_larger_than_its_queue_may_ever_hold_is_told"),),
    ),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.what)
def test_the_rules_that_find_a_failure_name_its_cause(failure: Failure) -> None:
    assert {RULES[rule]["cause"] for rule in failure.rules} == {failure.cause}


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.what)
def test_the_tests_that_cause_a_failure_exist(failure: Failure) -> None:
    for place in failure.places:
        tree = ast.parse((TESTS / place.file).read_text("utf-8"))
        assert place.test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not place.name or place.name in texts, place
