"""Reasons of jobs by the codes of squeue(1)."""

import re
import subprocess
from functools import cache

import pytest

from windlass.cli.slurm import reason_codes
from windlass.cli.slurm.reason_codes import reason_code
from windlass.core.model.reasons import Gate, Limit, Reason

OF_OTHER_PAGES = {"None", "JobArrayTaskLimit", "DeadLine", "OutOfMemory"}
"""Codes that squeue prints and squeue(1) leaves to the page on resource limits that it names."""


def waiting(reason, **more):
    return {"phase": "Queued", "reason": reason.value, "gate": "", "limit": "", "behind": "", **more}


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        (Gate.DEPENDENCY, "Dependency"),
        (Gate.BEGIN_TIME, "BeginTime"),
        (Gate.BACKOFF, "BeginTime"),
        (Gate.ARRAY_LIMIT, "JobArrayTaskLimit"),
        (Gate.HOLD, "JobHeldAdmin"),
    ],
)
def test_a_closed_gate_has_a_code_of_its_own(gate, code):
    assert reason_code(waiting(Reason.ADMISSION_GATED, gate=gate.value)) == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, "Resources"),
        ({"behind": "first-1"}, "Priority"),
        ({"limit": "Queue"}, "QOSResourceLimit"),
        ({"limit": "UserJobs"}, "AssociationJobLimit"),
    ],
)
def test_a_job_waits_for_nodes_for_its_turn_or_for_a_limit(more, code):
    assert reason_code(waiting(Reason.WAITING_FOR_QUOTA, **more)) == code


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("Queued", "Queued"), "None"),
        (("Suspended", "Suspended"), "JobHeldUser"),
        (("Running", "Running"), "None"),
        (("Succeeded", "Succeeded"), "None"),
        (("Failed", "Cancelled"), "None"),
        (("Failed", "DependencyFailed"), "DependencyNeverSatisfied"),
        (("Failed", "WalltimeExceeded"), "TimeLimit"),
        (("Failed", "Signal"), "NonZeroExitCode"),
    ],
)
def test_other_states(row, code):
    assert reason_code(dict(zip(("phase", "reason"), row, strict=True))) == code


def test_every_reason_gate_and_limit_has_a_code_that_squeue_documents():
    rows = [waiting(reason) for reason in Reason]
    rows += [waiting(Reason.ADMISSION_GATED, gate=gate.value) for gate in Gate]
    rows += [waiting(Reason.WAITING_FOR_QUOTA, limit=limit.value) for limit in Limit]
    rows += [{"phase": "Failed", "reason": reason} for reason in reason_codes._OF_ENDS]
    codes = {reason_code(row) for row in rows} - OF_OTHER_PAGES
    if not documented():
        pytest.skip("the manual page squeue(1) is not installed")
    assert codes <= documented()


@cache
def documented() -> set[str]:
    """The codes in the manual page of squeue on this machine; empty without one."""
    try:
        done = subprocess.run(["man", "1", "squeue"], capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return set()
    part = done.stdout.partition("\nJOB REASON CODES")[2].partition("\nJOB STATE CODES")[0]
    return set(re.findall(r"^ {7}([A-Z]\w+)", part, re.MULTILINE))
