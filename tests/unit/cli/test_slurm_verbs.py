"""`squeue`, `sinfo`, `sacct`, `sbatch` and `scancel`: options, formats and exit codes."""

import json
import shlex
import time
from pathlib import Path

import pytest

from windlass.cli.current_user import current_user
from windlass.cli.slurm import accounting_fields, job_fields
from windlass.cli.slurm.field_values import slurm_duration, slurm_memory, slurm_time
from windlass.core.ledger import Ledger
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.jobs.cluster.snapshot_file import SnapshotRecord, to_plain
from windlass.server.client import Client
from windlass.server.errors import ApiError, ErrorCode

NODES = [
    {
        "name": f"n{number}",
        "state": state,
        "cordoned": cordoned,
        "capacity": {"cpu": 8_000, "memory": 16 << 30, "gpu": 4},
        "used": {"cpu": 1_000 * gpus, "gpu": gpus},
        "jobs": [{"id": "j-1", "holds": {"gpu": gpus}}] if gpus else [],
    }
    for number, state, cordoned, gpus in (
        (1, "ready", "", 0),
        (2, "ready", "", 2),
        (3, "ready", "", 4),
        (4, "ready", "Xid 79", 0),
        (5, "unreachable", "", 0),
        (6, "ready", "", 0),
    )
]


@pytest.fixture
def listed(daemon, lines):
    """A daemon in which one job runs, one waits and one has failed."""
    daemon.says["/v1/jobs"] = {"jobs": lines("running", "queued", "failed")}
    daemon.says["/v1/nodes"] = {"nodes": NODES}
    daemon.says["/v1/queues"] = {"queues": []}
    return daemon


def test_squeue_has_the_columns_of_slurm(listed, windlass):
    ran = windlass("squeue", "-t", "PD,R")
    header, running, queued = ran.out.splitlines()
    assert header == "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    assert running.split()[:5] == ["digits-1", "research", "digits", "zoë", "R"]
    assert running.endswith("      2 n[1-2]")
    assert queued == "          digits-2  research   digits      zoë PD       0:00      2 (None)"


def test_squeue_filters_at_the_controller(listed, windlass):
    windlass("squeue", "-u", "zoë", "-p", "research", "-n", "digits", "-t", "all")
    [(_, path, filters, _)] = listed.asked
    [fields] = filters.pop("fields")
    expected = {"user": ["zoë"], "queue": ["research"], "name": ["digits"], "all": ["True"], "limit": ["1000000"]}
    assert (path, filters) == ("/v1/jobs", expected)
    assert "nodes" in fields.split(",")
    assert "request" not in fields.split(",")


@pytest.mark.parametrize(
    ("options", "out"),
    [
        (["-o", "%i|%T|%b"], "JOBID|STATE|TRES_PER_NODE\ndigits-1|RUNNING|gres/gpu:1\n"),
        (["-o", "%.10i,%3t;"], "     JOBID,ST ;\n  digits-1,R  ;\n"),
        (["-h", "-o", "%A %D %N %l %y"], "1 2 n[1-2] UNLIMITED 0\n"),
        (["-h", "-o", "%a %q %E %h %z"], "(null) normal (null) OK *:*:*\n"),
        (
            ["-O", "jobid:.4,name:8,StateCompact:3"],
            "JOBIDNAME    ST \n   1digits  R  \n"[0:0] + " JOB"[0:0] + "JOBINAME    ST \n   1digits  R  \n",
        ),
    ],
)
def test_squeue_formats(listed, windlass, options, out):
    assert windlass("squeue", "-j", "1", *options).out == out


def test_squeue_sorts_by_fields(listed, windlass):
    assert windlass("squeue", "-h", "-t", "all", "-o", "%A", "-S", "-i").out == "3\n2\n1\n"
    assert windlass("squeue", "-h", "-t", "all", "-o", "%A", "-S", "T,A").out == "3\n2\n1\n"


def test_squeue_repeats_until_it_is_interrupted(listed, windlass, monkeypatch):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", nap)
    ran = windlass("squeue", "-i", "30", "-t", "R", "-o", "%i")
    assert (ran.code, naps) == (130, [30, 30])
    assert ran.out.count("JOBID\ndigits-1\n") == 2


def test_each_field_of_squeue_needs_only_the_fields_that_it_names(listed):
    rows = listed.says["/v1/jobs"]["jobs"]
    for field in (*job_fields.FIELDS.values(), *job_fields.NAMED_FIELDS.values()):
        needed = job_fields.needed_fields([field])
        for row in rows:
            assert field.value({name: row[name] for name in needed if name in row}) == field.value(row)


def test_no_job_and_no_header_print_nothing(daemon, windlass):
    daemon.says["/v1/jobs"] = {"jobs": []}
    assert windlass("squeue", "-h") == (0, "", "")
    assert windlass("sacct", "-n") == (0, "", "")


def test_squeue_as_json(listed, windlass):
    [job] = json.loads(windlass("squeue", "-j", "digits-1", "--json").out)["jobs"]
    assert (job["job_id"], job["job_state"], job["nodes"], job["tasks"]) == ("digits-1", "RUNNING", "n[1-2]", 4)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["squeue", "-j", "nope"], 1, "Invalid job id specified: nope\nwindlass sacct lists all jobs"),
        (["sinfo", "-o", "%z"], 1, "--format: there is no field %z\nfields are %a"),
        (["squeue", "-O", "jobid,foo"], 1, "--Format: there is no field 'foo'\nfields are account"),
        (["squeue", "-O", "jobid", "-o", "%i"], 1, "--format and --Format exclude each other"),
        (["squeue", "-S", "%"], 1, "--sort: there is no field"),
        (["squeue", "-t", "FOO"], 1, "--states: there is no state 'FOO'\nstates are PENDING"),
        (["sacct", "-S", "soon"], 1, "--starttime expects a time such as"),
        (["sacct", "--units", "X"], 1, "--units: there is no unit 'X'\nunits are K"),
        (["sacct", "-o", "JobIDs"], 1, "--format: there is no field 'JobIDs'; did you mean 'jobid'?"),
        (["scancel"], 1, "nothing to cancel\nname jobs, or write -u USER"),
        (["scancel", "nope"], 1, "Invalid job id specified: nope"),
    ],
)
def test_errors_name_the_fix(listed, windlass, words, code, message):
    ran = windlass(*words)
    assert ran.code == code
    assert message in ran.err


def test_sinfo_groups_nodes_by_state(listed, windlass):
    assert windlass("sinfo").out.splitlines() == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "default*     up   infinite      2   idle n[1,6]",
        "default*     up   infinite      1    mix n2",
        "default*     up   infinite      1  alloc n3",
        "default*     up   infinite      1  drain n4",
        "default*     up   infinite      1  down* n5",
    ]


@pytest.fixture
def two_queues(listed):
    """The daemon with two queues."""
    usage = {"quota": {}, "used": {}, "waiting": 0, "running": 0}
    listed.says["/v1/queues"] = {"queues": [{"name": name, **usage} for name in ("batch", "default")]}
    return listed


def test_each_queue_is_a_partition_of_all_nodes(two_queues, windlass):
    assert windlass("sinfo", "-s").out.splitlines() == [
        "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST",
        "default*     up   infinite          2/2/2/6 n[1-6]",
        "batch        up   infinite          2/2/2/6 n[1-6]",
    ]
    assert windlass("sinfo", "-h", "-p", "batch", "-t", "idle", "-o", "%P %R %D").out == "batch batch 2\n"
    assert windlass("sinfo", "-h", "-p", "nope").out == ""
    partitions = windlass("scontrol", "-o", "show", "partition").out.splitlines()
    assert [line.partition(" ")[0] for line in partitions] == ["PartitionName=batch", "PartitionName=default"]
    assert " Partitions=default,batch " in windlass("scontrol", "-o", "show", "node", "n1").out


def test_the_default_queue_is_a_partition_before_a_job_uses_it(listed, windlass):
    assert "PartitionName=default\n" in windlass("scontrol", "show", "partition", "default").out


def test_sinfo_lists_a_node_for_each_partition_its_name_first(two_queues, windlass):
    header, first, second, *_ = windlass("sinfo", "-N", "-l", "-n", "n2").out.splitlines()
    assert header.split() == ["NODELIST", "NODES", "PARTITION", "STATE", "CPUS", "MEMORY", "GRES", "REASON"]
    assert first.split() == ["n2", "1", "default*", "mixed", "8", "16384", "gpu:4", "none"]
    assert second.split()[:3] == ["n2", "1", "batch"]


def test_sinfo_lists_reasons(two_queues, windlass):
    assert [line.split() for line in windlass("sinfo", "-R").out.splitlines()] == [
        ["REASON", "USER", "TIMESTAMP", "NODELIST"],
        ["Xid", "79", "N/A", "Unknown", "n4"],
        ["unreachable", "N/A", "Unknown", "n5"],
    ]


@pytest.mark.parametrize(
    ("options", "out"),
    [
        (["-h", "-N", "-n", "n[2-3]", "-o", "%n %T %C %G"], "n2 mixed 2/6/0/8 gpu:4\nn3 allocated 4/4/0/8 gpu:4\n"),
        (["-h", "-t", "idle,drain", "-o", "%D %t %E"], "2 idle none\n1 drain Xid 79\n"),
    ],
)  # fmt: skip
def test_sinfo_options(listed, windlass, options, out):
    assert windlass("sinfo", *options).out == out


def test_sacct_lists_ended_jobs(listed, windlass):
    assert windlass("sacct", "-s", "F", "-P", "-o", "JobID,State,ExitCode,Elapsed").out == (
        "JobID|State|ExitCode|Elapsed\ndigits-3|FAILED|3:0|00:01:04\n"
    )
    assert windlass("sacct", "-n", "-j", "3", "-o", "jobid%8,exitcode").out == "digits-3      3:0\n"


def test_sacct_lists_the_oldest_first(listed, windlass):
    listed.says["/v1/jobs"]["jobs"].reverse()
    assert windlass("sacct", "-n", "-P", "-o", "JobID").out == "digits-1\ndigits-2\ndigits-3\n"


def test_sacct_names_the_nodes_of_the_last_attempt_of_an_ended_job(listed, windlass):
    [failed] = [job for job in listed.says["/v1/jobs"]["jobs"] if job["phase"] == "Failed"]
    failed["last_nodes"] = ["n4", "n5"]
    out = windlass("sacct", "-n", "-P", "-o", "JobID,NodeList").out
    assert out == "digits-1|n[1-2]\ndigits-2|None assigned\ndigits-3|n[4-5]\n"
    assert [path for _, path, _, _ in listed.asked] == ["/v1/jobs"]


def test_sacct_lists_jobs_of_a_time(listed, windlass):
    [failed] = [job for job in listed.says["/v1/jobs"]["jobs"] if job["phase"] == "Failed"]

    def shown(*options):
        return windlass("sacct", "-n", "-P", "-o", "JobID", *options).out.split()

    failed["finished_at"], failed["created_at"] = 1_700_000_000_000, 1_699_990_000_000
    assert "digits-3" in shown("-S", "2023-11-14T22:13")
    assert "digits-3" not in shown("-S", "2023-11-14T22:14")
    assert "digits-3" in shown("-E", "2023-11-14T22:13")
    assert "digits-3" not in shown("-E", "2023-11-14T10:00")


def test_sacct_writes_values_as_slurm_does(listed, windlass):
    def of_failed(*options):
        return windlass("sacct", "-n", "-j", "3", *options).out

    assert of_failed("-p", "-o", "State,ExitCode") == "FAILED|3:0|\n"
    assert of_failed("-P", "--delimiter", ";", "-o", "ReqMem,MaxRSS", "--units", "M") == "6144M;\n"
    assert of_failed("-o", "ReqTRES%30") == "      mem=6G,node=2,gres/gpu=2\n"
    assert of_failed("-o", "JobName%-4,Partition%4") == "dig+ res+\n"
    assert of_failed("-b") == "    digits-3     FAILED      3:0\n"
    assert "JobID" in windlass("sacct", "-e").out.split()


def test_each_field_of_sacct_needs_only_the_fields_that_it_names(listed):
    for field in accounting_fields.FIELDS.values():
        for row in listed.says["/v1/jobs"]["jobs"]:
            needed = {"id", "number", "array", *field.needs}
            assert field.value({name: row[name] for name in needed if name in row}) == field.value(row)


def test_the_elapsed_time_of_a_running_job_grows(listed, windlass, monkeypatch):
    [running] = [job for job in listed.says["/v1/jobs"]["jobs"] if job["phase"] == "Running"]
    monkeypatch.setattr(time, "time", lambda: running["running_since"] / 1000 + 93_784)
    assert windlass("sacct", "-n", "-P", "-s", "R", "-o", "JobID,Elapsed").out == "digits-1|1-02:03:04\n"
    assert windlass("squeue", "-h", "-t", "R", "-o", "%i %M").out == "digits-1 1-02:03:04\n"


def test_scancel_by_number_and_by_filter(listed, windlass):
    listed.says["/v1/cancel"] = {"jobs": [{"id": "digits-1"}], "errors": []}
    assert windlass("scancel", "1") == (0, "", "")
    assert listed.asked[-1][3]["jobs"] == ["digits-1"]
    assert windlass("scancel", "-t", "PD") == (0, "", "")
    assert listed.asked[-1][3]["jobs"] == ["digits-2"]


def test_scancel_by_a_filter_asks_for_jobs_of_the_user_alone(listed, windlass):
    listed.says["/v1/cancel"] = {"jobs": [], "errors": []}
    for words in (["-t", "PD"], ["-n", "digits"], ["-p", "research"]):
        windlass("scancel", *words)
        asked = [each[2] for each in listed.asked if each[1] == "/v1/jobs"]
        assert asked[-1]["user"] == [current_user()]
    windlass("scancel", "-n", "digits", "1")
    assert "user" not in [each[2] for each in listed.asked if each[1] == "/v1/jobs"][-1], "a number names any job"


def test_scancel_cancels_the_latest_first_so_that_no_dependent_fails(listed, windlass):
    listed.says["/v1/cancel"] = {"jobs": [], "errors": []}
    assert windlass("scancel", "-u", "zoë") == (0, "", "")
    assert listed.asked[-1][3]["jobs"] == ["digits-3", "digits-2", "digits-1"]


def test_scancel_of_my_own_jobs(listed, windlass):
    listed.says["/v1/cancel"] = {"jobs": [], "errors": []}
    assert windlass("scancel", "--me") == (0, "", "")
    [filters] = [filters for _, path, filters, _ in listed.asked if path == "/v1/jobs"]
    assert filters["user"] == [current_user()]


def test_a_node_without_a_free_cpu_is_allocated(listed, windlass):
    node = {**NODES[0], "used": {"cpu": 8_000, "gpu": 1}, "jobs": [{"id": "j-1", "holds": {"gpu": 1}}]}
    listed.says["/v1/nodes"] = {"nodes": [node]}
    assert windlass("sinfo", "-h", "-o", "%t").out == "alloc\n"


def test_the_fix_of_a_refusal_has_options_of_sbatch(daemon, windlass, train):
    fix = "let its processes share the existing cores: --cpus 0, in a job file cpus: 0"
    daemon.says["/v1/jobs"] = ApiError(ErrorCode.REFUSED, "train can never run here: no", fix)
    ran = windlass("sbatch", train)
    assert (ran.code, ran.err.splitlines()[-2]) == (1, "windlass: train can never run here: no")
    assert ran.err.splitlines()[-1].startswith("lower -N, -n or -c; ")


@pytest.fixture
def array(listed):
    """The daemon with the tasks 0 to 3 of an array."""
    [line] = [job for job in listed.says["/v1/jobs"]["jobs"] if job["number"] == 2]
    tasks = [{**line, "id": f"long-9_{n}", "number": 9, "array": "long-9", "index": n} for n in range(4)]
    listed.says |= {"/v1/jobs": {"jobs": tasks}, "/v1/cancel": {"jobs": [], "errors": []}}
    return listed


@pytest.mark.parametrize(
    ("word", "tasks"),
    [
        ("long-9_[1-2]", ["long-9_1", "long-9_2"]),
        ("9_[0,3]", ["long-9_0", "long-9_3"]),
        ("9_2", ["long-9_2"]),
        ("long-9", [f"long-9_{n}" for n in range(4)]),
    ],
)
def test_scancel_takes_tasks_of_an_array(array, windlass, word, tasks):
    assert windlass("scancel", word) == (0, "", "")
    assert array.asked[-1][3]["jobs"] == tasks


def test_scancel_names_tasks_that_are_unknown(array, windlass):
    ran = windlass("scancel", "long-9_[3-4]", "long-9_[x]")
    assert ran.code == 1
    assert "Invalid job id specified: long-9_4\n" in ran.err
    assert "Invalid job id specified: long-9_[x]\n" in ran.err


def test_squeue_takes_r_as_tasks_have_lines_of_their_own(array, windlass):
    assert windlass("squeue", "-h", "-r", "-o", "%i").out.split() == [f"long-9_{n}" for n in range(4)]


def test_sbatch_submits_the_imported_job(daemon, windlass, tmp_path):
    daemon.says["/v1/jobs"] = {"ids": ["train-7"]}
    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2 --mail-user=a@example.org\nsrun ./train $1\n")
    ran = windlass("sbatch", str(script), "x")
    assert (ran.code, ran.out) == (0, "Submitted batch job train-7\n")
    assert "line 2: --mail-user: no mail is sent" in ran.err
    [submission] = daemon.asked[-1][3]["submissions"]
    assert submission["job"]["roles"][0]["replicas"] == 2
    assert submission["job"]["roles"][0]["command"][-1] == "x"
    assert windlass("sbatch", "--parsable", "-Q", str(script)) == (0, "train-7\n", "")


@pytest.fixture
def train(tmp_path):
    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=1 -t 1:00:00\nsrun ./train\n")
    return str(script)


def test_sbatch_takes_options_of_the_command_line_and_of_the_environment(daemon, windlass, train, monkeypatch):
    daemon.says["/v1/jobs"] = {"ids": ["train-7"]}
    monkeypatch.setenv("SBATCH_JOB_NAME", "digits")
    assert windlass("sbatch", "-N3", "-H", train).out == "Submitted batch job train-7\n"
    [submission] = daemon.asked[-1][3]["submissions"]
    job = submission["job"]
    assert (job["name"], job["suspend"], job["roles"][0]["replicas"]) == ("digits", True, 3)


def test_sbatch_submits_a_wrapped_command(daemon, windlass):
    daemon.says["/v1/jobs"] = {"ids": ["wrap-7"]}
    assert windlass("sbatch", "--wrap", "echo $HOME").code == 0
    [submission] = daemon.asked[-1][3]["submissions"]
    assert submission["job"]["roles"][0]["command"][-1].endswith("echo $HOME\n")


@pytest.mark.parametrize(
    ("dependency", "after"),
    [
        ("afterok:2", ["digits-2"]),
        ("afterok:2:digits-3,afterany:1", ["digits-2", "digits-3", "digits-1"]),
        ("afternotok:2,after:1,singleton", ["digits-2", "digits-1", "train"]),
    ],
)
def test_sbatch_waits_for_jobs_by_number(listed, windlass, train, dependency, after):
    listed.says["/v1/jobs"]["ids"] = ["train-7"]
    assert windlass("sbatch", "-d", dependency, train).code == 0
    [submission] = listed.asked[-1][3]["submissions"]
    assert [each["job_id"] for each in submission["job"]["after"]] == after


@pytest.mark.parametrize("job", ["999", "Foo", "2_7"])
def test_sbatch_refuses_a_dependency_on_an_unknown_job(listed, windlass, train, job):
    ran = windlass("sbatch", f"--dependency=afterok:2:{job}", train)
    assert (ran.code, ran.out) == (1, "")
    assert f"Batch job submission failed: Job dependency problem: there is no job {job}\n" in ran.err
    assert all("submissions" not in str(body) for _, _, _, body in listed.asked)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/bash\r\n#SBATCH -N 2\r\nsrun ./train\r\n", "Batch script contains DOS line breaks (\\r\\n) instead"),
        ("#!/bin/bash\n#SBATCH --nodez=2\nsrun ./train\n", "unrecognized option '--nodez': correct or remove it;"),
        ("#!/bin/bash\n#SBATCH -N 2\n#SBATCH foo\nsrun ./train\n", "job:3:9: unrecognized option 'foo'"),
    ],
)
def test_sbatch_refuses_what_sbatch_of_slurm_refuses(daemon, windlass, tmp_path, text, message):
    script = tmp_path / "job"
    script.write_bytes(text.encode())
    ran = windlass("sbatch", str(script))
    assert (ran.code, ran.out, daemon.asked) == (1, "", [])
    assert message in ran.err


def test_the_command_of_a_job_of_sbatch_is_its_script(daemon, windlass, train, lines, monkeypatch):
    daemon.says["/v1/jobs"] = {"ids": ["train-7"]}
    Path(train).write_text("#!/bin/bash\n#SBATCH -N 2\nsrun ./train $1\n")
    monkeypatch.chdir(Path(train).parent)
    windlass("sbatch", "train.sbatch", "it's")
    [submission] = daemon.asked[-1][3]["submissions"]
    command = shlex.join(submission["job"]["roles"][0]["command"])
    extra = {"command": command, "after": [], "avoid": [], "labels": {}, "workdir": "/", "whole_node": False}
    daemon.says["/v1/jobs"] = {"jobs": [{**lines("running")[0], **extra}]}
    assert f"\n   Command={train}\n" in windlass("scontrol", "show", "job", "1").out
    assert windlass("squeue", "-h", "-o", "%o").out == f"{train}\n"


def test_sbatch_waits_and_exits_with_the_code_of_the_job(daemon, windlass, train, lines, monkeypatch):
    class Stream:
        def poll(self, _timeout):
            return [{"type": "end", "job": lines("failed")[0]}, {"type": "all ended"}]

        def close(self):
            pass

    daemon.says["/v1/jobs"] = {"ids": ["digits-3"]}
    monkeypatch.setattr(Client, "follow", lambda _self, _names, _after=0: Stream())
    assert windlass("sbatch", "-W", train) == (3, "Submitted batch job digits-3\n", "")


def test_sbatch_estimates_the_start_and_submits_nothing(daemon, windlass, train):
    def told(gpus):
        nodes = [Node(f"n{number}", {"gpu": gpus, "cpu": 8_000, "memory": 1 << 40, "pods": 100}) for number in (1, 2)]
        snapshot = Ledger(nodes, [Queue("default")]).snapshot()
        daemon.says["/v1/snapshot"] = to_plain(SnapshotRecord(snapshot, 1_700_000_000_000))
        return windlass("sbatch", "--test-only", train)

    start = "sbatch: Job train to start at 2023-11-14T22:13:20 on 2 nodes in partition default\n"
    assert told(gpus=4) == (0, "", start)
    refused = told(gpus=0)
    assert (refused.code, refused.err[:37]) == (1, "windlass: train can never run here: n")
    assert [path for _, path, _, _ in daemon.asked] == ["/v1/snapshot"] * 2


def test_sbatch_prints_its_options(windlass):
    assert "--test-only" in windlass("sbatch", "--help").out
    assert windlass("sbatch", "-Z", "x").err == (
        "windlass: sbatch: unrecognized option '-Z'\nsee: windlass sbatch --help\n"
    )


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0:00"), (64_000, "1:04"), (3_600_000, "1:00:00"), (93_784_000, "1-02:03:04"), (None, "N/A")]
)
def test_durations(ms, text):
    assert slurm_duration(ms) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0M"), (500 << 20, "500M"), (3 << 30, "3G")])
def test_memory(amount, text):
    assert slurm_memory(amount) == text


def test_a_job_is_eligible_from_its_begin_time_on():
    eligible = accounting_fields.FIELDS["eligible"]
    assert set(eligible.needs) == {"queued_at", "begin"}
    assert eligible.value({"queued_at": 60_000, "begin": None}) == slurm_time(60_000)
    assert eligible.value({"queued_at": 60_000, "begin": 120_000}) == slurm_time(120_000)
