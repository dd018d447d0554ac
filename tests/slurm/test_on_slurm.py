"""`--on slurm` on a real Slurm: submit, follow, list, explain, print the output of, hold and cancel jobs."""

import json
import os
import sys
import time
from datetime import UTC, datetime

import pytest

import windlass as windlass_api
from windlass.backends.slurm.commands import no_answer_error, run_command
from windlass.cli.slurm_cluster import client

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def target(slurm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_ON", "slurm")


def submit(windlass, *words: str) -> str:
    code, text = windlass("submit", *words)
    assert code == 0, text
    return text.strip()


def test_run_follows_a_gang_of_two_nodes_to_its_end(windlass):
    script = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    code, text = windlass("run", "-N", "2", "--procs", "2", "--name", "hello", "--", sys.executable, "-c", script)
    assert code == 0, text
    for rank in range(4):
        assert f"[r{rank}" in text
        assert f"rank {rank} of 4" in text
    assert "succeeded" in text


def test_the_output_of_an_older_job_of_the_same_number_is_not_printed(windlass, tmp_path):
    number = int(submit(windlass, "true").rpartition("-")[2]) + 1
    stale = tmp_path / f"slurm-{number}.out"
    stale.write_text("line of an older Slurm\n")
    os.utime(stale, (0, 0))
    code, text = windlass("run", "--name", "fresh", "--", "echo", "line of this job")
    assert code == 0, text
    assert f"fresh-{number}" in text
    assert "line of this job" in text
    assert "older Slurm" not in text + windlass("logs", f"fresh-{number}")[1]


def test_run_exits_with_the_exit_code_of_the_job(windlass):
    code, text = windlass("run", "--name", "fails", "--", "sh", "-c", "exit 3")
    assert code == 3, text
    assert "exit code 3" in text


def test_a_gang_has_the_exit_code_of_the_rank_that_failed_first(windlass):
    command = ("sh", "-c", "[ $RANK = 1 ] && exit 5; sleep 30")
    code, text = windlass("run", "-N", "2", "--name", "multi", "--", *command)
    assert code == 5, text
    assert "exit code 5 of task 1 on n2" in text


def test_a_restart_is_reported(windlass, tmp_path):
    (tmp_path / "once.sh").write_text("test -e ran || { touch ran; exit 9; }\n")
    code, text = windlass("run", "--name", "again", "--restarts", "1", "--", "sh", "once.sh")
    assert code == 0, text
    assert "2 attempts" in text


def test_queue_status_and_why_of_a_waiting_job(windlass, slurm):
    running = submit(windlass, "-N", "2", "-G", "2", "--procs", "1", "--time", "10m", "--name", "first", "sleep", "100")
    slurm.wait_for_state(running.rpartition("-")[2], "RUNNING")
    waiting = submit(windlass, "-N", "2", "-G", "2", "--procs", "1", "--time", "10m", "--name", "second", "sleep", "1")
    slurm.wait_for(lambda: slurm.job(waiting.rpartition("-")[2])["Reason"] == "Resources")
    _, listed = windlass("queue")
    assert running in listed
    assert "too few nodes are free" in listed
    _, status = windlass("status", waiting)
    assert f"{waiting} Queued, position 1" in status
    assert "worker: 2×1 rank" in status
    slurm.wait_for(lambda: "starts: ~" in windlass("why", waiting)[1])
    _, why = windlass("why", waiting)
    assert "0 gpu free, 2 needed" in why
    assert f"{running}: 4 gpu (2 on n1, 2 on n2), by" in why
    assert waiting in windlass("why")[1]
    assert "jobs: 1 holds nodes, 1 waits" in windlass("status")[1]
    assert "no accounting" in windlass("status")[1]


def test_a_job_waits_for_its_begin_time(windlass, slurm):
    begin = (int(time.time()) // 60 + 60) * 60
    moment = datetime.fromtimestamp(begin, UTC).isoformat()
    waiting = submit(windlass, "--time", "10m", "--name", "late", "--begin", moment, "sleep", "1")
    number = waiting.rpartition("-")[2]
    slurm.wait_for(lambda: slurm.job(number)["Reason"] == "BeginTime")
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begin))
    assert slurm.job(number)["StartTime"] == slurm.job(number)["EligibleTime"] == local
    assert "its earliest start is not reached" in windlass("why", waiting)[1]


def test_logs_of_one_rank_and_to_the_end(windlass):
    job = submit(windlass, "-N", "2", "--name", "talks", "--", "sh", "-c", "echo I am $RANK; sleep 2; echo bye")
    code, text = windlass("logs", "-f", "--rank", "1", "talks")
    assert code == 0
    assert text.splitlines() == ["[r1] I am 1", "[r1] bye"]
    assert windlass("logs", "--bare", "--tail", "1", "--rank", "0", job)[1] == "bye\n"


def test_members_of_an_array_and_a_dependency(windlass, slurm):
    array = submit(windlass, "--array", "1,3", "--name", "grid", "--", "sh", "-c", "echo index $JOB_COMPLETION_INDEX")
    after = submit(windlass, "--after", array, "--name", "last", "--", "true")
    slurm.wait_for_state(after.rpartition("-")[2], "COMPLETED")
    answer = json.loads(windlass("status", "-o", "json", array)[1])
    assert [(each["id"], each["phase"]) for each in answer["members"]] == [
        (f"{array}_1", "Succeeded"),
        (f"{array}_3", "Succeeded"),
    ]
    assert "index 3" in windlass("logs", f"{array}_3")[1]


def test_a_job_is_held_released_and_cancelled(windlass, slurm):
    job = submit(windlass, "--name", "held", "--time", "10m", "--", "sleep", "100")
    number = job.rpartition("-")[2]
    slurm.wait_for_state(number, "RUNNING")
    assert windlass("suspend", job) == (0, f"{job} is being suspended\n")
    slurm.wait_for(lambda: "Suspended" in windlass("status", job)[1])
    assert windlass("resume", job)[0] == 0
    slurm.wait_for_state(number, "RUNNING")
    assert windlass("cancel", job) == (0, f"{job} is being cancelled\n")
    slurm.wait_for_state(number, "CANCELLED")
    assert "Cancelled" in windlass("status", job)[1]
    assert windlass("cancel", job)[0] == 5


def test_the_python_client_submits_waits_and_reads_the_output(slurm):
    with windlass_api.Client("slurm") as client:
        job = client.submit(["sh", "-c", "echo I am $RANK"], name="python", nodes=2)
        assert job.wait(timeout=100).phase == "Succeeded"
        assert sorted((line.rank, line.text) for line in job.logs()) == [(0, "I am 0"), (1, "I am 1")]
        assert [each.id for each in client.history(name="python")] == [job.id]
        with pytest.raises(windlass_api.WindlassError, match="Slurm answers no queries about nodes"):
            client.nodes()


def test_a_schedule_is_refused(windlass):
    code, text = windlass("submit", "--cron", "0 3 * * *", "--", "true")
    assert code == 2
    assert "repeat its batch script with scrontab" in text


def test_an_impossible_job_is_refused_with_the_reason(windlass):
    code, text = windlass("submit", "--mem", "900Gi", "--", "true")
    assert code == 3
    assert "Slurm refuses the job (Requested node configuration is not available)" in text


def test_a_job_that_slurm_has_forgotten_names_the_missing_accounting(windlass):
    code, text = windlass("status", "4711")
    assert code == 4
    assert "this Slurm has no accounting (sacct)" in text


def test_without_the_commands_of_slurm(windlass, monkeypatch, tmp_path):
    with monkeypatch.context() as context:
        context.setenv("PATH", str(tmp_path))
        code, text = windlass("queue")
    assert code == 69
    assert "squeue is not on PATH\nrun this on a login node" in text


def test_without_a_controller(windlass, slurm, monkeypatch, tmp_path):
    lines = [
        "SlurmctldPort=9" if line.startswith("SlurmctldPort=") else line
        for line in (slurm.folder / "slurm.conf").read_text().splitlines()
    ]
    (tmp_path / "slurm.conf").write_text("\n".join([*lines, "MessageTimeout=2", ""]))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    for words in (["queue"], ["run", "--", "true"], ["submit", "--", "true"]):
        code, text = windlass(*words)
        assert code == 69, text
        assert "the controller of Slurm does not answer" in text
        assert "scontrol ping" in text


def test_a_verb_that_slurm_lacks_names_those_that_work(windlass):
    code, text = windlass("nodes")
    assert code == 2
    assert "this verb does not work on Slurm; these do: run, submit, queue" in text


def test_a_rank_that_the_job_has_not_is_refused(windlass):
    job = submit(windlass, "--name", "one", "--", "true")
    code, text = windlass("logs", job, "--rank", "9")
    assert code == 2
    assert "its only rank is 0" in text


def test_logs_go_on_while_the_controller_does_not_answer(windlass, slurm, monkeypatch, tmp_path):
    script = "echo begun; until test -e on; do sleep 0.2; done; echo bye"
    job = submit(windlass, "--name", "talks", "--", "sh", "-c", script)
    slurm.wait_for_state(job.rpartition("-")[2], "RUNNING")
    asked = []

    def run(words, *rest):
        asked.append(words)
        if len(asked) in (2, 3):
            (tmp_path / "on").touch()
            raise no_answer_error("Connection refused")
        return run_command(words, *rest)

    monkeypatch.setattr(client.SlurmClient.__init__, "__defaults__", (run,))
    code, text = windlass("logs", "-f", job)
    assert code == 0
    assert "its jobs go on" in text
    assert "reconnected" in text
    assert "[r0] bye" in text


def test_a_job_of_several_roles_is_one_job(windlass, slurm, tmp_path):
    script = "echo $COLOUR is $RANK of $WORLD_SIZE; until test -e on; do sleep 0.2; done"
    role = f"cpus: 1, mem: 100Mi, command: [sh, -c, '{script}']"
    roles = f"{{a: {{procs: 2, env: {{COLOUR: red}}, {role}}}, b: {{env: {{COLOUR: blue}}, {role}}}}}"
    (tmp_path / "job.yaml").write_text(f"name: mixed\nlauncher: plain\nroles: {roles}\n")
    job = submit(windlass, "job.yaml")
    slurm.wait_for_state(job.rpartition("-")[2], "RUNNING")
    listed = json.loads(windlass("queue", "-o", "json")[1])
    assert [(each["id"], each["nodes"]) for each in listed if each["id"].startswith("mixed")] == [(job, ["n1", "n2"])]
    (tmp_path / "on").touch()
    text = windlass("logs", "-f", "--bare", job)[1]
    assert sorted(text.splitlines()) == ["blue is 2 of 3", "red is 0 of 3", "red is 1 of 3"]
    assert "Succeeded" in windlass("status", job)[1]
    (tmp_path / "on").unlink()
    other = submit(windlass, "job.yaml")
    slurm.wait_for_state(other.rpartition("-")[2], "RUNNING")
    assert windlass("cancel", other)[0] == 0
    slurm.wait_for(lambda: not slurm.call("squeue", "--noheader"))
