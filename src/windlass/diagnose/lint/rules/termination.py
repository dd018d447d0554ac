"""Rules about how pods end: grace periods, signals, retries of Jobs and preemption."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from windlass.diagnose.lint.documents import Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.jobs.syntax.command_line import node_count_of

_LIFECYCLE = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_GRACE_S = 30
"""terminationGracePeriodSeconds if it is not written."""
_BACKOFF = 6
"""backoffLimit of a Job if it is not written."""
_LAUNCHES = re.compile(r"\b(python3?|torchrun|accelerate|deepspeed|mpirun)\b")
_DEFAULT_POLICIES = {**dict.fromkeys(("PyTorchJob", "PaddleJob"), "OnFailure"), "TFJob": "Never", "JAXJob": "Never"}
"""Kind → the restart policy of a replica type that has none."""


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Write terminationGracePeriodSeconds: 30 or more.",
    source=_LIFECYCLE,
)
def grace_period_zero(pod: PodTemplate) -> Iterator[Hit]:
    """Without a grace period the ranks get SIGKILL at once and cannot save a checkpoint."""
    grace = pod.spec["terminationGracePeriodSeconds"]
    if pod.is_gang and grace.text == "0":
        yield grace.hit_value("terminationGracePeriodSeconds: 0 in a training job")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Raise terminationGracePeriodSeconds above the wait of preStop plus the time of a checkpoint.",
    source=_LIFECYCLE,
)
def grace_period_below_pre_stop(container: Container) -> Iterator[Hit]:
    """The grace period includes preStop: the container is killed before it gets SIGTERM."""
    hook, grace = container.value.at("lifecycle", "preStop"), container.pod.spec["terminationGracePeriodSeconds"]
    command = re.search(r"(?:^|\s)sleep ([0-9]{1,6})(?:s?)(?:\s|;|$)", " ".join(hook.at("exec", "command").texts))
    wait = hook.at("sleep", "seconds").number or (int(command[1]) if command else 0)
    period = _GRACE_S if grace.number is None else grace.number
    if wait and wait >= period:
        yield hook.hit(f"preStop waits {wait} s of the {period} s until the container is killed")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Write exec before the command that trains, as the last of the script and in no pipeline.",
    source=_LIFECYCLE,
)
def grace_period_behind_shell(container: Container) -> Iterator[Hit]:
    """SIGTERM goes to the shell alone, which does not pass it on: the grace period ends without a checkpoint."""
    grace, line = container.pod.spec["terminationGracePeriodSeconds"], container.line
    is_script = len(line) == 3 and re.fullmatch("-[a-z]*c", line[1])
    if (grace.number or 0) > _GRACE_S and is_script and _keeps_signals(PurePath(line[0]).name, line[2]):
        yield grace.hit(f"{grace.number} s to end, and {line[0]} runs the training as its child")


def _keeps_signals(shell: str, script: str) -> bool:
    """Tells whether the command that trains is a child of the shell: bash becomes the last command of a script."""
    commands = [each.strip() for each in re.split(r"\n|;|&&", re.sub(r"\\\n", " ", script)) if each.strip()]
    launches = [each for each in commands if _LAUNCHES.search(each)]
    if not launches or re.search(r"\b(exec|trap)\s", script):
        return False
    is_last = launches[-1] == commands[-1]
    return not is_last or "|" in commands[-1] or (shell != "bash" and len(commands) > 1)


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Write backoffLimit: a multiple of completions.",
    source=f"{_JOB}#pod-backoff-failure-policy",
    kinds="Job",
)
def backoff_limit_below_ranks(document: Document) -> Iterator[Hit]:
    """One fault ends all ranks of a rendezvous, and each counts: above backoffLimit the Job fails at once."""
    spec = document.spec
    limit, count = spec["backoffLimit"], spec["completions"].number or 0
    most = _BACKOFF if limit.number is None else limit.number
    together = any((node_count_of(each.words) or 1) > 1 for pod in document.pods for each in pod.containers)
    is_gang = document.group == "batch" and spec["completionMode"].text == "Indexed" and together
    if is_gang and 0 < most < count and not spec["backoffLimitPerIndex"] and not spec["podFailurePolicy"]:
        yield (limit or spec["completions"]).hit(f"backoffLimit is {most}; the job has {count} pods of ranks")


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Write a podFailurePolicy that ignores DisruptionTarget: onPodConditions: [{type: DisruptionTarget}].",
    source=f"{_JOB}#pod-failure-policy",
    kinds="Job",
)
def preemption_fails_job(document: Document) -> Iterator[Hit]:
    """A preempted or evicted pod counts as failed: with backoffLimit 0 the first one ends the Job."""
    limit = document.spec["backoffLimit"]
    has_gpus = any(each.gpus for pod in document.pods for each in pod.containers)
    if document.group == "batch" and limit.text == "0" and has_gpus and not document.spec["podFailurePolicy"]:
        yield limit.hit_value("backoffLimit is 0, and preemption is not excepted")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write restartPolicy: Never.",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy",
    kinds="Job CronJob JobSet",
)
def pod_failure_policy_restarts(pod: PodTemplate) -> Iterator[Hit]:
    """A policy for failed pods needs pods that the kubelet does not restart: the API server refuses the Job."""
    around = pod.group if pod.group["podFailurePolicy"] else pod.group.at("template", "spec")
    policy = pod.spec["restartPolicy"]
    if around["podFailurePolicy"] and policy.text == "OnFailure":
        yield policy.hit_value("restartPolicy: OnFailure with a podFailurePolicy", "Never")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Write restartPolicy beside replicas.",
    source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/",
    kinds="PyTorchJob TFJob XGBoostJob PaddleJob JAXJob MPIJob",
)
def restart_policy_overwritten(pod: PodTemplate) -> Iterator[Hit]:
    """The operator writes the policy beside replicas, or its default, over that of the pod template."""
    written, used = pod.spec["restartPolicy"], pod.group["restartPolicy"].text or _DEFAULT_POLICIES.get(pod.kind, "")
    if written and used and written.text != used:
        yield written.hit_value(f"restartPolicy: {written.text[:40]} in the template; {used[:40]} is used")
