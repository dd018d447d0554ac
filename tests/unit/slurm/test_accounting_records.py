"""Lines of sacct as jobs."""

import pytest

from windlass.backends.slurm.accounting_records import DELIMITER, FIELDS, parse_accounting

LINE = {
    "JobID": "5",
    "JobIDRaw": "5",
    "User": "ada",
    "Partition": "main",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "100",
    "Start": "110",
    "End": "120",
    "NNodes": "2",
    "NodeList": "n[1-2]",
    "ReqTRES": "billing=4,cpu=4,gres/gpu:a100=8,gres/gpu=8,mem=8G,node=2",
    "TimelimitRaw": "30",
    "WorkDir": "/home/ada",
    "JobName": "train",
}


def attempt(**fields):
    return DELIMITER.join((LINE | fields)[name] for name in FIELDS)


def only_job(*lines):
    (job,) = parse_accounting("\n".join(lines))
    return job


def test_a_line_is_a_job_with_its_resources_and_the_default_path_of_its_output():
    job = only_job(attempt())
    assert (job.id, job.user, job.submitted, job.started, job.ended) == ("train-5", "ada", 100, 110, 120)
    assert (job.cpus, job.memory, job.gpus_per_node, job.time_limit) == (4, 8 << 30, 4, 30)
    assert job.output == "/home/ada/slurm-5.out"
    assert job.is_accounted


def test_requeued_attempts_are_restarts_of_the_last_one():
    job = only_job(attempt(Submit="200"), attempt(State="REQUEUED"), attempt(State="NODE_FAIL", Submit="150"))
    assert (job.submitted, job.restarts, job.states) == (200, 2, {"COMPLETED"})


@pytest.mark.parametrize("earlier", [{"State": "FAILED"}, {"State": "REQUEUED", "JobName": "other"}])
def test_an_earlier_job_of_the_same_number_is_no_attempt(earlier):
    assert only_job(attempt(**earlier), attempt(Submit="200")).restarts == 0


def test_a_member_of_an_array_has_its_own_number():
    job = only_job(attempt(JobID="3_7", JobIDRaw="5"))
    assert (job.id, job.number, job.output) == ("train-3_7", 5, "/home/ada/slurm-3_7.out")


def test_components_of_a_heterogeneous_job_are_one_job():
    job = only_job(attempt(JobID="5+0"), attempt(JobID="5+1", JobIDRaw="6", NodeList="n3", NNodes="1"))
    assert (job.id, job.nodes, job.node_count) == ("train-5", "n[1-2],n3", 3)


def test_a_job_that_never_started_has_no_nodes_and_no_start():
    job = only_job(attempt(State="CANCELLED by 0", Start="Unknown", NodeList="None assigned", ReqTRES=""))
    assert (job.nodes, job.started, job.cpus, job.states) == ("", None, 0, {"CANCELLED"})


@pytest.mark.parametrize("line", ["", "sacct: odd", attempt(JobID="3_[1-9]"), attempt(JobIDRaw="x" * 99)])
def test_other_lines_are_skipped(line):
    assert parse_accounting(line) == []


def test_control_characters_and_delimiters_in_a_name_stay_in_the_name():
    assert only_job(attempt(JobName=f"a{DELIMITER}b\x1b")).name == "a-b-"
