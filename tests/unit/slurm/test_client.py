"""The client of Slurm over commands whose output is given."""

import json

import pytest
from test_accounting_records import attempt
from test_job_records import OLD

from windlass.backends.slurm.commands import error_of
from windlass.backends.slurm.errors import SlurmFailure
from windlass.cli.current_user import current_user
from windlass.cli.slurm_cluster.client import SlurmClient
from windlass.core.model.job import Condition, Dependency, Job, Role
from windlass.jobs.description.submission import Submission
from windlass.server.errors import ApiError, ErrorCode


def line_of(node, state="idle", cpus="0/8/0/8", used="gpu:0", reason="none"):
    cells = ((node, 80), (state, 24), (cpus, 40), ("16000", 24), ("0", 24), ("gpu:4", 200), (used, 200), (reason, 120))
    return "".join(text.ljust(width) for text, width in cells)


class Commands:
    """Commands of a Slurm: squeue prints `jobs`, the others what `outputs` has for them."""

    def __init__(self, *jobs, **outputs):
        self.jobs, self.outputs, self.calls = jobs, outputs, []

    def __call__(self, words, text="", variables=None, /):  # noqa: ARG002 - the signature of a runner
        self.calls.append(list(words))
        if words[0] == "squeue":
            return json.dumps({"errors": [], "jobs": self.jobs})
        answer = self.outputs.get(words[0], "")
        if isinstance(answer, Exception):
            raise answer
        return answer


STOPPED = error_of("sacct", "sacct: error: Problem talking to the database: Connection refused\n")
WAITING = OLD | {"job_id": 13, "job_state": "PENDING", "state_reason": "Resources", "nodes": "", "start_time": 5000}


def test_an_explanation_counts_nodes_with_room_and_names_the_holders_of_others():
    nodes = "\n".join(
        [line_of("n1", used="gpu:a100:4(IDX:0-3)"), line_of("n2"), line_of("n3", "drained", reason="dimm")]
    )
    found = SlurmClient(Commands(OLD, WAITING, sinfo=nodes)).explain("13")["explanation"]
    assert found["verdict"]["message"].endswith("1 of 3 nodes of partition main have room now, and it needs 2")
    assert [(row["node"], row["fits"], row["cause"]) for row in found["nodes"]] == [
        ("n1", 0, "0 gpu free, 2 needed"),
        ("n2", 2, ""),
        ("n3", 0, "drained: dimm"),
    ]
    assert [each["job_id"] for each in found["frees"]] == ["digits-12"]
    assert found["expected"] == 5_000_000


def test_jobs_are_found_by_number_id_and_name_of_the_living_one():
    ended = OLD | {"job_id": 11, "job_state": "COMPLETED"}
    client = SlurmClient(Commands(ended, OLD))
    assert [client.job(name)["id"] for name in ("11", "digits-12", "digits")] == ["digits-11", "digits-12", "digits-12"]


def test_one_waiting_member_of_an_array_is_cancelled_alone():
    array = WAITING | {"job_id": 7, "array_job_id": 7, "array_task_string": "4-9%2"}
    commands = Commands(array)
    assert SlurmClient(commands).act("cancel", "digits-7_5") == {"jobs": [{"id": "digits-7_5"}]}
    assert commands.calls[-2:] == [["scontrol", "update", "JobId=7_5", "Requeue=0"], ["scancel", "7_5"]]
    with pytest.raises(ApiError, match="has no job"):
        SlurmClient(commands).act("cancel", "digits-7_3")


def test_an_array_is_cancelled_at_once():
    running = OLD | {"job_id": 8, "array_job_id": 7, "array_task_id": 3}
    commands = Commands(running, WAITING | {"job_id": 7, "array_job_id": 7, "array_task_string": "4-9%2"})
    SlurmClient(commands).act("cancel", "digits-7")
    assert [words for words in commands.calls if words[0] == "scancel"] == [["scancel", "7"]]


def test_a_name_of_several_living_jobs_is_ambiguous():
    with pytest.raises(ApiError, match="several jobs have the name digits") as error:
        SlurmClient(Commands(OLD, WAITING)).job("digits")
    assert error.value.fix == "name one of them: digits-12, digits-13"


def test_the_accounting_knows_jobs_that_the_controller_has_forgotten():
    line = attempt(JobID="9", JobIDRaw="9", State="CANCELLED by 1000", JobName="a|b")
    details = SlurmClient(Commands(sacct=line)).job("9")
    assert (details["id"], details["phase"], details["reason"]) == ("a-b-9", "Failed", "Cancelled")


def test_history_joins_the_jobs_of_the_controller_and_of_the_accounting():
    config = "AccountingStorageType = accounting_storage/slurmdbd"
    lines = "\n".join(attempt(JobID=number, JobIDRaw=number) for number in ("9", "11", "12"))
    ended = OLD | {"job_id": 11, "job_state": "COMPLETED", "end_time": 300}
    client = SlurmClient(Commands(ended, OLD, sacct=lines, scontrol=config))
    assert [line["id"] for line in client.history()] == ["digits-11", "train-9"]
    assert [line["id"] for line in client.history(since=200_000)] == ["digits-11"]


def test_history_warns_once_until_the_accounting_answers_again():
    outputs = {"scontrol": "AccountingStorageType = accounting_storage/slurmdbd"}
    said = []
    commands = Commands(**outputs)
    client = SlurmClient(commands, warn=said.append)
    for sacct in (STOPPED, STOPPED, "", STOPPED):
        commands.outputs["sacct"] = sacct
        assert client.history() == []
    assert len(said) == 2
    assert "the accounting of Slurm (slurmdbd) does not answer" in said[0]


def test_a_job_that_a_stopped_accounting_may_know_is_not_called_unknown():
    with pytest.raises(ApiError, match="not know job 9 any more, and the accounting") as error:
        SlurmClient(Commands(sacct=STOPPED)).job("9")
    assert error.value.code is ErrorCode.NO_DAEMON


def test_without_accounting_the_error_says_so():
    no_accounting = error_of("sacct", "Slurm accounting storage is disabled\n")
    with pytest.raises(ApiError, match="this Slurm has no accounting") as error:
        SlurmClient(Commands(sacct=no_accounting)).job("9")
    assert error.value.code is ErrorCode.NO_SUCH_JOB


@pytest.mark.parametrize(
    ("stderr", "kind", "text"),
    [
        (
            "squeue: error\nUnable to contact slurm controller (connect failure)",
            SlurmFailure.UNREACHABLE,
            "does not answer",
        ),
        ("squeue: fatal: Unable to process configuration file", SlurmFailure.UNREACHABLE, "no configuration of Slurm"),
        ("slurm_load_jobs error: Invalid job id specified", SlurmFailure.NO_SUCH_JOB, "knows no such job"),
        ("scancel: error: Access/permission denied", SlurmFailure.NOT_ALLOWED, "does not allow"),
        ("squeue: unrecognized option '--json'", SlurmFailure.FAILED, "prints no JSON"),
        ("Batch job submission failed: Invalid partition name", SlurmFailure.REFUSED, "(Invalid partition name)"),
        ("\x1b[2Jodd", SlurmFailure.FAILED, "?[2Jodd"),
        ("", SlurmFailure.FAILED, "it printed no reason"),
    ],
)
def test_errors_of_commands_have_a_meaning(stderr, kind, text):
    error = error_of("squeue", stderr)
    assert error.kind is kind
    assert text in error.message


MINE = WAITING | {"user_name": current_user(), "comment": "windlass-k-0", "name": "a"}


def two_jobs():
    return [Submission(Job(name, (Role("worker", ("true",)),), user="ada")) for name in ("a", "b")]


def submitted(*jobs):
    commands = Commands(*jobs, sbatch="20")
    ids = SlurmClient(commands).submit(two_jobs(), key="k", again=True)
    return ids, [" ".join(words[:3]) for words in commands.calls if words[0] != "squeue"]


def test_a_repeated_submission_finds_what_it_has_submitted():
    assert submitted(MINE, MINE | {"job_id": 14, "comment": "windlass-k-1", "name": "b"}) == (["a-13", "b-14"], [])


@pytest.mark.parametrize("other", [{"job_state": "CANCELLED"}, {"user_name": "mallory"}])
def test_a_repeated_submission_takes_no_cancelled_job_and_none_of_another_user(other):
    ids, calls = submitted(MINE | other, MINE | {"job_id": 14, "comment": "windlass-k-1", "name": "b"})
    assert ids == ["a-20", "b-20"]
    assert calls == [
        "scontrol update JobId=14",
        "scancel 14",
        "sbatch --parsable --comment=windlass-k-0",
        "sbatch --parsable --comment=windlass-k-1",
    ]


def test_a_name_means_a_job_of_the_user_before_those_of_others():
    theirs = OLD | {"job_id": 30, "user_name": "mallory"}
    own = OLD | {"job_id": 11, "job_state": "COMPLETED", "user_name": current_user()}
    assert SlurmClient(Commands(theirs, own)).job("digits")["id"] == "digits-11"
    assert SlurmClient(Commands(theirs)).job("digits")["id"] == "digits-30"


def test_a_job_waits_for_no_job_of_another_user_by_its_name():
    job = Job("b", (Role("worker", ("true",)),), user="ada", after=(Dependency("digits", Condition.SUCCEEDED),))
    commands = Commands(OLD | {"user_name": "mallory"}, sbatch="20", sacct="")
    with pytest.raises(ApiError, match="has no job 'digits'"):
        SlurmClient(commands).submit([Submission(job)])


def test_the_end_of_an_unlimited_job_is_unknown():
    unlimited = OLD | {"time_limit": 525_600, "end_time": 32_000_000}
    [holder] = SlurmClient(Commands(unlimited, WAITING, sinfo=line_of("n1"))).explain("13")["explanation"]["frees"]
    assert holder["ends_by"] is None


def test_a_job_that_slurm_refused_got_no_signal():
    refused = OLD | {"job_state": "FAILED", "state_reason": "BadConstraints", "exit_code": 1, "nodes": ""}
    line = SlurmClient(Commands(refused)).job("12")
    assert (line["reason"], line["message"]) == ("Misconfigured", "Slurm refused it (BadConstraints)")


def test_the_cancel_of_an_ended_job_proposes_no_submission():
    with pytest.raises(ApiError, match="digits-12 has ended") as error:
        SlurmClient(Commands(OLD | {"job_state": "COMPLETED"})).act("cancel", "digits-12")
    assert error.value.fix == ""
