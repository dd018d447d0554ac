"""The task that failed first, in what srun of Slurm 22.05 prints."""

import json

from test_accounting_records import attempt
from test_job_records import OLD

from windlass.backends.slurm.accounting_records import parse_accounting
from windlass.backends.slurm.job_records import parse_jobs
from windlass.cli.slurm_cluster.first_failure import first_failure, hides_first_failure

ENDS_OTHERS = "srun: launch/slurm: _step_signal: Terminating StepId=1.0"
ATTEMPT = f"""\
1: step 7
srun: error: n2: task 1: Exited with exit code 5
{ENDS_OTHERS}
0: slurmstepd-n1: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-27T17:25:19 ***
srun: error: n1: task 0: Terminated
srun: Force Terminated StepId=1.0
"""


def test_the_first_failure_is_that_before_srun_ends_the_others():
    assert first_failure(ATTEMPT) == (5, "task 1 on n2")


def test_the_last_attempt_counts():
    again = ATTEMPT.replace("n2: task 1: Exited with exit code 5", "n1: tasks 0,2: Segmentation fault (core dumped)")
    assert first_failure(ATTEMPT + again) == (139, "task 0 on n1")


def test_lines_of_ranks_and_other_texts_say_nothing():
    assert first_failure("3: srun: error: n1: task 3: Exited with exit code 9\n" + ENDS_OTHERS) is None
    assert first_failure("srun: error: n1: task 3: vanished\n" + ENDS_OTHERS) is None
    assert first_failure("srun: error: n1: task 0: Terminated") is None


def test_only_a_code_of_a_signal_may_hide_another_one():
    (failed,) = parse_jobs(json_of(exit_code=143 << 8))
    (own,) = parse_jobs(json_of(exit_code=5 << 8))
    assert (hides_first_failure(failed), hides_first_failure(own)) == (True, False)


def test_a_code_that_sacct_has_reduced_by_128_may_hide_another_one():
    failed, own, signalled = (
        parse_accounting(attempt(State="FAILED", ExitCode=code))[0] for code in ("15:0", "100:0", "0:9")
    )
    assert [hides_first_failure(job) for job in (failed, own, signalled)] == [True, False, False]


def json_of(**fields):
    return json.dumps({"errors": [], "jobs": [OLD | {"job_state": "FAILED", **fields}]})
