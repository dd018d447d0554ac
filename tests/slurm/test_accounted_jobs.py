"""`--on slurm` on a Slurm with accounting: jobs that the controller has forgotten, and a slurmdbd that stops."""

import json
import re

import pytest

import windlass as windlass_api

pytestmark = pytest.mark.timeout(300)
FAILS_AT_RANK_1 = "[ $RANK = 1 ] && exit 5; sleep 30"
FAILS_ONCE = "test -e ran || { touch ran; exit 9; }; echo second attempt"
MIXED = """\
name: mixed
launcher: plain
roles:
  a: {cpus: 1, mem: 100Mi, command: ["true"]}
  b: {cpus: 1, mem: 100Mi, command: ["true"]}
"""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def ended(accounted_slurm, workdir):
    """Ids of ended jobs by name, which only the accounting knows."""
    (workdir / "mixed.yaml").write_text(MIXED)
    with pytest.MonkeyPatch.context() as context, windlass_api.Client("slurm") as client:
        context.setenv("SLURM_CONF", accounted_slurm.environment["SLURM_CONF"])
        context.chdir(workdir)
        jobs = [
            client.submit(["sh", "-c", FAILS_ONCE], name="again", restarts=1),
            client.submit(["sh", "-c", FAILS_AT_RANK_1], name="gang", nodes=2),
            client.submit(["sh", "-c", "exit 3"], name="fails"),
            client.submit(["sh", "-c", "echo index $JOB_COMPLETION_INDEX"], name="grid", array="1,3"),
            client.submit("mixed.yaml"),
            client.submit(["sleep", "100"], name="stopped"),
        ]
        accounted_slurm.wait_for(lambda: jobs[-1].info().phase == "Running")
        jobs[-1].cancel()
    wait_until_forgotten(accounted_slurm)
    return {job.id.rpartition("-")[0]: job.id for job in jobs}


def wait_until_forgotten(slurm):
    """Waits until the controller knows no job and the accounting has the end of each."""
    slurm.wait_for(lambda: not slurm.call("squeue", "--noheader", "--states=all"))
    slurm.wait_for(lambda: "Unknown" not in slurm.call("sacct", "--allocations", "--format=End"))


@pytest.fixture(autouse=True)
def target(accounted_slurm, workdir, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", accounted_slurm.environment["SLURM_CONF"])
    monkeypatch.setenv("WINDLASS_ON", "slurm")
    monkeypatch.chdir(workdir)


def history(windlass, *words):
    code, text = windlass("history", "-o", "json", *words)
    assert code == 0, text
    return {row["id"]: row for row in json.loads(text)}


def test_history_has_the_jobs_that_the_controller_has_forgotten(windlass, ended):
    rows = history(windlass)
    assert {row["id"]: (row["phase"], row["exit_code"]) for row in rows.values()} == {
        ended["again"]: ("Succeeded", 0),
        ended["gang"]: ("Failed", 5),
        ended["fails"]: ("Failed", 3),
        f"{ended['grid']}_1": ("Succeeded", 0),
        f"{ended['grid']}_3": ("Succeeded", 0),
        ended["mixed"]: ("Succeeded", 0),
        ended["stopped"]: ("Failed", None),
    }
    assert rows[ended["stopped"]]["reason"] == "Cancelled"
    assert [row["created_at"] > 0 < row["finished_at"] for row in rows.values()] == [True] * 7
    assert list(history(windlass, "--name", "fails")) == [ended["fails"]]
    assert history(windlass, "--user", "nobody") == {}


def test_attempts_of_a_requeued_job_are_counted(windlass, ended):
    assert history(windlass)[ended["again"]]["attempts"] == 2
    assert "second attempt" in windlass("logs", ended["again"])[1]


def test_status_of_a_gang_names_the_task_that_failed_first(windlass, ended):
    code, text = windlass("status", ended["gang"])
    assert code == 0
    assert "exit code 5 of task 1 on n2" in text
    number = ended["gang"].rpartition("-")[2]
    assert windlass("status", number)[1] == text


def test_members_of_an_array_are_found_one_by_one_and_together(windlass, ended):
    answer = json.loads(windlass("status", "-o", "json", ended["grid"])[1])
    assert [each["id"] for each in answer["members"]] == [f"{ended['grid']}_1", f"{ended['grid']}_3"]
    assert "index 3" in windlass("logs", f"{ended['grid']}_3")[1]


def test_a_job_of_several_roles_is_one_job_on_both_nodes(windlass, ended):
    details = json.loads(windlass("status", "-o", "json", ended["mixed"])[1])
    assert (details["id"], details["phase"], details["replicas"]) == (ended["mixed"], "Succeeded", 2)


def test_a_missing_output_is_said(windlass, ended, workdir):
    number = ended["stopped"].rpartition("-")[2]
    (workdir / f"slurm-{number}.out").unlink()
    text = windlass("logs", ended["stopped"])[1]
    assert f"the accounting of Slurm does not record where {ended['stopped']} printed" in text


def test_an_ended_job_cannot_be_cancelled_and_an_unknown_one_is_told_apart(windlass, ended):
    code, text = windlass("cancel", ended["fails"])
    assert code == 5
    assert "has ended" in text
    assert windlass("status", "4711")[0] == 4


def test_status_of_the_cluster_has_no_note(windlass):
    code, text = windlass("status")
    assert code == 0
    assert "accounting" not in text


def test_jobs_go_on_while_slurmdbd_is_stopped_and_are_recorded_when_it_is_back(windlass, accounted_slurm, ended):
    accounted_slurm.accounting.stop_slurmdbd()
    said = "the accounting of Slurm (slurmdbd) does not answer"
    try:
        code, text = windlass("run", "--name", "meanwhile", "--", "sh", "-c", "exit 4")
        assert code == 4, text
        meanwhile = re.search(r"meanwhile-\d+", text)[0]
        assert said in windlass("status")[1]
        code, text = windlass("history")
        assert code == 0
        assert text.count(said) == 1
        assert "only jobs that the controller still knows are listed" in text
        code, text = windlass("status", ended["fails"])
        assert code == 69
        assert said in text
        assert "restarts slurmdbd" in text
        with windlass_api.Client("slurm") as client, pytest.warns(windlass_api.WindlassWarning, match="slurmdbd"):
            client.history()
    finally:
        accounted_slurm.accounting.start_slurmdbd()
    accounted_slurm.wait_for(lambda: meanwhile in accounted(accounted_slurm))
    wait_until_forgotten(accounted_slurm)
    rows = history(windlass)
    assert rows[meanwhile]["exit_code"] == 4
    assert ended["fails"] in rows


def accounted(slurm):
    """Ids of the jobs of the accounting."""
    text = slurm.call("sacct", "--allocations", "--noheader", "--parsable2", "--format=JobName,JobIDRaw")
    return ["-".join(line.split("|")) for line in text.splitlines()]
