"""Jobs of `squeue --json`, of old and new versions, and what hostile values become."""

import json

import pytest

from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.backends.slurm.job_records import parse_jobs
from windlass.backends.slurm.job_states import job_state
from windlass.core.model.status import CANCELLED, Phase
from windlass.server.job_lines import exit_code

OLD = {
    "job_id": 12,
    "array_job_id": 0,
    "array_task_id": None,
    "array_task_string": "",
    "name": "digits",
    "job_state": "RUNNING",
    "state_reason": "None",
    "user_name": "ada",
    "partition": "main",
    "priority": 4294901759,
    "nodes": "n[1-2]",
    "node_count": 2,
    "tasks": 4,
    "tres_req_str": "cpu=4,mem=2G,node=2,billing=4",
    "tres_per_node": "gres:gpu:a100:2",
    "time_limit": 10,
    "submit_time": 1000,
    "start_time": 1010,
    "end_time": 1610,
    "exit_code": 0,
    "restart_cnt": 1,
    "current_working_directory": "/home/ada",
    "standard_output": "",
}
NEW = OLD | {
    "array_job_id": {"set": True, "infinite": False, "number": 0},
    "array_task_id": {"set": False, "infinite": False, "number": 0},
    "job_state": ["RUNNING"],
    "priority": {"set": True, "infinite": False, "number": 4294901759},
    "node_count": {"set": True, "infinite": False, "number": 2},
    "tasks": {"set": True, "infinite": False, "number": 4},
    "tres_per_node": "gres/gpu:a100:2",
    "time_limit": {"set": True, "infinite": False, "number": 10},
    "submit_time": {"set": True, "infinite": False, "number": 1000},
    "start_time": {"set": True, "infinite": False, "number": 1010},
    "end_time": {"set": True, "infinite": False, "number": 1610},
    "exit_code": {"return_code": {"set": True, "number": 0}, "signal": {"id": {"set": False, "number": 0}}},
}


def parsed(**changes):
    (job,) = parse_jobs(json.dumps({"errors": [], "jobs": [OLD | changes]}))
    return job


def test_old_and_new_versions_say_the_same():
    old, new = parse_jobs(json.dumps({"errors": [], "jobs": [OLD, NEW]}))
    assert old == new
    assert (old.id, old.key, old.output) == ("digits-12", "12", "/home/ada/slurm-12.out")


def test_a_running_job():
    state = job_state(parsed())
    role = state.job.roles[0]
    assert (state.status.phase, state.status.attempts) == (Phase.RUNNING, 2)
    assert (role.replicas, role.procs) == (2, 2)
    assert role.resources == {"cpu": 2000, "memory": 2**30, "gpu": 2}
    assert state.status.placement.distinct() == ("n1", "n2")


@pytest.mark.parametrize(
    ("states", "status", "reason", "code"),
    [
        ("FAILED", 3 << 8, "ExitCode", 3),
        ("FAILED", 9, "Signal", 137),
        ("TIMEOUT", 0, "WalltimeExceeded", None),
        ("NODE_FAIL", 0, "NodeLost", None),
        ("OUT_OF_MEMORY", 0x7D, "OutOfMemory", None),
        ("CANCELLED", 15, CANCELLED, None),
    ],
)
def test_ends(states, status, reason, code):
    state = job_state(parsed(job_state=states, exit_code=status))
    assert (state.status.phase, state.status.reason, exit_code(state)) == (Phase.FAILED, reason, code)
    assert state.status.run_time == 600_000


def test_a_job_whose_processes_are_ending_has_not_ended():
    assert job_state(parsed(job_state=["COMPLETED", "COMPLETING"])).status.phase is Phase.RUNNING


def test_members_of_an_array():
    running = parsed(array_job_id=7, array_task_id=3)
    waiting = parsed(array_job_id=7, job_id=7, array_task_string="4-9%2", job_state="PENDING")
    assert (running.id, running.key, running.output) == ("digits-7_3", "7_3", "/home/ada/slurm-7_3.out")
    assert (waiting.id, waiting.key) == ("digits-7_[4-9%2]", "7")


def test_the_pattern_of_an_output():
    job = parsed(standard_output="logs/%x-%4j-%u.%%", array_job_id=0)
    assert job.output == "/home/ada/logs/digits-0012-ada.%"


def test_hostile_values_become_harmless():
    job = parsed(name="a b\x1b[2J/../c", user_name="x\ny", nodes="n[1-99999999]", tasks=-4, priority="high")
    assert job.name == "a-b--2J-..-c"
    assert job.user == "x?y"
    assert (job.tasks, job.priority) == (1, 0)
    assert job_state(job).status.placement.distinct() == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"errors": [], "jobs": [3]}', '{"errors": [], "jobs": [{}]}'])
def test_anything_else_is_one_error(text):
    with pytest.raises(SlurmError, match="something else than jobs"):
        parse_jobs(text)


def test_errors_of_the_controller_are_told():
    with pytest.raises(SlurmError) as error:
        parse_jobs('{"errors": [{"error": "Unspecified error", "errno": -1}], "jobs": []}')
    assert error.value.kind is SlurmFailure.UNREACHABLE


def test_the_components_of_a_heterogeneous_job_are_one_job():
    first = OLD | {"job_id": 12, "het_job_id": 12, "nodes": "n1", "node_count": 1, "tasks": 2}
    second = OLD | {"job_id": 13, "het_job_id": 12, "nodes": "n[2-3]", "node_count": 2, "tasks": 4}
    [job] = parse_jobs(json.dumps({"errors": [], "jobs": [second, first]}))
    assert (job.id, job.nodes, job.node_count, job.tasks) == ("digits-12", "n1,n[2-3]", 3, 6)
