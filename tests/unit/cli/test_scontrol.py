"""`scontrol`: records in the form Key=Value, host lists, and changes of jobs."""

import json

import pytest

NODE = {
    "name": "n1",
    "state": "ready",
    "cordoned": "",
    "capacity": {"cpu": 8_000, "memory": 16 << 30, "gpu": 4},
    "used": {"cpu": 2_000, "gpu": 2},
    "jobs": [{"id": "digits-1", "holds": {"gpu": 2}}],
}
QUEUE = {"name": "research", "quota": {"gpu": 8}, "used": {"gpu": 2, "cpu": 2_000}, "waiting": 1, "running": 1}


@pytest.fixture
def listed(daemon, lines):
    """A daemon in which one job runs, one waits and one has failed."""
    daemon.says["/v1/jobs"] = {"jobs": lines("running", "queued", "failed")}
    daemon.says["/v1/nodes"] = {"nodes": [NODE]}
    daemon.says["/v1/queues"] = {"queues": [QUEUE]}
    return daemon


def test_a_job_has_the_keys_of_slurm(listed, windlass):
    out = windlass("scontrol", "show", "job", "1").out
    assert out.startswith("JobId=digits-1 JobName=digits\n   UserId=zoë(N/A) MCS_label=N/A\n")
    assert "   JobState=RUNNING Reason=" in out
    assert "   NodeList=n[1-2] BatchHost=n1\n   NumNodes=2 NumCPUs=0 NumTasks=4\n" in out
    assert "   TRES=mem=6G,node=2,gres/gpu=2\n" in out
    assert out.endswith("\n\n")


def test_a_failed_job_has_its_exit_code(listed, windlass):
    assert " ExitCode=3:0\n" in windlass("scontrol", "show", "jobs", "digits-3").out


def test_one_line_for_each_job(listed, windlass):
    lines = windlass("scontrol", "-o", "show", "job").out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["JobId=digits-1", "JobId=digits-2", "JobId=digits-3"]


def test_nodes_and_partitions(listed, windlass):
    node = windlass("scontrol", "show", "node", "n1", "-o").out
    assert node.startswith("NodeName=n1 CPUAlloc=2 CPUTot=8 Gres=gpu:4 GresUsed=gpu:2 ")
    assert " State=MIXED " in node
    partition = windlass("scontrol", "show", "partition", "research", "-o").out
    assert partition.startswith("PartitionName=research ")
    assert partition.endswith("TRES=gres/gpu=8 AllocTRES=cpu=2,gres/gpu=2\n")


def test_records_as_json(listed, windlass):
    [node] = json.loads(windlass("scontrol", "show", "nodes", "--json").out)["nodes"]
    assert (node["NodeName"], node["AllocTRES"]) == ("n1", "cpu=2,gres/gpu=2")


def test_host_lists_need_no_daemon(windlass, monkeypatch):
    assert windlass("scontrol", "show", "hostnames", "n[1-2],x").out == "n1\nn2\nx\n"
    assert windlass("scontrol", "show", "hostlist", "n1,n2,x").out == "n[1-2],x\n"
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[3-4]")
    assert windlass("scontrol", "show", "hostnames").out == "n3\nn4\n"


@pytest.mark.parametrize(
    ("words", "actions"),
    [
        (["hold", "2"], ["suspend"]),
        (["release", "digits-2"], ["resume"]),
        (["suspend", "JobId=1"], ["suspend"]),
        (["requeue", "1"], ["suspend", "resume"]),
    ],
)
def test_words_for_actions(listed, windlass, words, actions):
    for verb in actions:
        listed.says[f"/v1/{verb}"] = {"jobs": [{"id": "digits-9"}], "errors": []}
    assert windlass("scontrol", *words) == (0, "", "")
    assert [path for method, path, _, _ in listed.asked if method == "POST"] == [f"/v1/{verb}" for verb in actions]


def test_a_requeue_stops_at_a_refusal(listed, windlass):
    refusal = {"code": "wrong_state", "message": "digits-3 has ended already (Failed)", "fix": ""}
    listed.says["/v1/suspend"] = {"jobs": [], "errors": [refusal]}
    assert windlass("scontrol", "requeue", "digits-3") == (1, "", "windlass: digits-3 has ended already (Failed)\n")


def test_update_changes_time_limit_and_priority(listed, windlass):
    listed.says["/v1/jobs/digits-2/update"] = {"jobs": []}
    assert windlass("scontrol", "update", "JobId=2", "TimeLimit=2:00:00", "Priority=7") == (0, "", "")
    assert listed.asked[-1][3] == {"walltime": 7_200_000, "priority": 7}
    windlass("scontrol", "update", "JobId=2", "TimeLimit=UNLIMITED", "Nice=5")
    assert listed.asked[-1][3] == {"walltime": 0, "priority": -5}
    windlass("scontrol", "update", "JobId=2", "StartTime=2026-11-28T08:00Z")
    assert listed.asked[-1][3] == {"begin": 1_795_852_800_000}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["reconfigure"], 1, "there is no command 'reconfigure'\ncommands are show, hold"),
        (["show", "steps"], 1, "show has no entity 'steps'\nentities are job, node"),
        (["show", "job", "nope"], 1, "Invalid job id specified: nope"),
        (["show", "node", "n9"], 1, "Node n9 not found\nwindlass sinfo -N lists nodes"),
        (["show", "partition", "x"], 1, "Partition x not found"),
        (["show", "hostnames", "n[a]"], 1, "expects numbers and ranges"),
        (["hold"], 1, "no job is named"),
        (["update", "JobId=2"], 1, "update needs JobId=ID and new values"),
        (["update", "JobId=2", "NumNodes=4"], 1, "numnodes of a job cannot be changed\nvalues are TimeLimit"),
        (["update", "JobId=2", "TimeLimit=soon"], 1, "timelimit=soon is no valid value"),
        (["update", "JobId=2", "StartTime=soon"], 1, "starttime=soon is no valid value"),
        (["update", "JobId=2", "Nice=1", "--on", "c"], 1, "update changes jobs of this machine only"),
    ],
)
def test_errors_name_the_fix(listed, windlass, words, code, message):
    ran = windlass("scontrol", *words)
    assert (ran.code, message in ran.err) == (code, True), ran.err
