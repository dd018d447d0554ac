"""The last condition of a job is its present state, whatever it has been through: `kubectl get` shows that one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from kubeflow_operators.kinds import KINDS, V2, base

from windlass.core.model.status import TERMINAL, Phase, Status, Target
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest
from windlass.jobs.kubernetes.status.conditions import with_current_last
from windlass.jobs.kubernetes.status.job_status import status_of
from windlass.jobs.kubernetes.status.member_conditions import Counts, Failing

SIDE = ("Accepted", "ImagesPulled", "SpecApplied")
NEXT = {
    Phase.CREATED: (Phase.QUEUED, Phase.SUSPENDED),
    Phase.QUEUED: (Phase.ADMITTED, Phase.SUSPENDED, Phase.FAILED),
    Phase.ADMITTED: (Phase.RUNNING, Phase.QUEUED, Phase.SUSPENDED),
    Phase.RUNNING: (Phase.RESTARTING, Phase.SUSPENDED, Phase.QUEUED, Phase.SUCCEEDED, Phase.FAILED),
    Phase.RESTARTING: (Phase.RUNNING, Phase.QUEUED, Phase.FAILED),
    Phase.SUSPENDED: (Phase.QUEUED, Phase.FAILED),
}


def histories(length: int) -> list[tuple[Phase, ...]]:
    """Sequences of phases from the creation on, with every transition after every other."""
    found = [(Phase.CREATED,)]
    for _ in range(length):
        found = [(*each, after) for each in found for after in NEXT.get(each[-1], ())] + [
            each for each in found if each[-1] in TERMINAL
        ]
    return found


def written(job: Manifest, phase: Phase, now: int) -> Manifest:
    """The job after the write of its status. Of one that restarts, a pod fails; of others all run once it runs."""
    parsed = read(job)
    assert not isinstance(parsed, Fault)
    runs = phase in (Phase.RUNNING, Phase.RESTARTING)
    counts = {each.role: Counts(active=each.count) for each in parsed.replicas} if runs else {}
    alone = not parsed.run_policy.gang_restart
    # pods of a job whose pods restart one by one fail while the core says that it runs
    life = Status(Phase.RUNNING if alone and phase is Phase.RESTARTING else phase, started_at=1, admitted_at=1)
    failing = Failing(1, ()) if alone and phase is Phase.RESTARTING else Failing()
    if phase in TERMINAL:
        life = replace(life, finished_at=now, target=Target.SUCCEED if phase is Phase.SUCCEEDED else Target.FAIL)
    status = status_of(parsed, life, counts, job.get("status") or {}, now, failing=failing)
    beside = [{"type": each, "status": "False", "reason": "x", "message": "x"} for each in SIDE]
    kept = [each for each in status["conditions"] if each["type"] not in SIDE]
    return {**job, "status": {**status, "conditions": with_current_last([*kept, *beside])}}


@pytest.mark.parametrize("gang", [False, True], ids=["single-restarts", "gang-restarts"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_the_last_condition_is_the_present_state(kind, gang):
    for history in histories(6):
        job = {**base(kind), "metadata": {"name": "j", "namespace": "team", "uid": "u"}}
        if gang:
            job["spec"].setdefault("runPolicy", {})["restartMode"] = "gang"
        for now, (before, phase) in enumerate(pairwise((Phase.CREATED, *history))):
            job = written(job, phase, 1_763_755_200_000 + now * 1000)
            last = job["status"]["conditions"][-1]
            is_silent = kind is V2 and phase is Phase.RESTARTING and not gang  # mpi-operator goes on to say Running
            shown = before if is_silent else phase
            assert (last["type"], last["status"]) == (shown, "True"), history


def test_the_condition_created_comes_before_other_states_and_after_conditions_beside_them():
    listed = [
        {"type": "Created", "status": "True"},
        {"type": "Admitted", "status": "True"},
        {"type": "Running", "status": "True"},
        {"type": "Suspended", "status": "False"},
        {"type": "SpecApplied", "status": "False"},
    ]
    ordered = [each["type"] for each in with_current_last(listed)]
    assert ordered == ["SpecApplied", "Created", "Suspended", "Admitted", "Running"]
