"""`windlass simulate`: its output and its errors."""

import gc
import json
from pathlib import Path

import pytest

JOBS = "".join(
    json.dumps({"id": f"j{n}", "submit": n * 600_000, "duration": 3_600_000, "gpus": 1 + n % 4, "queue": "ab"[n % 2]})
    + "\n"
    for n in range(12)
)


@pytest.fixture(autouse=True)
def collector():
    """Restores the thresholds of Python's garbage collector."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.jsonl"
    path.write_text(JOBS)
    return path


def test_a_table_with_a_row_for_each_policy(windlass, small):
    ran = windlass("simulate", str(small), "--cluster", "2x4", "--policy", "fifo,sjf+easy", "-j", "1")
    assert (ran.code, ran.err) == (0, "")
    head, *rows = ran.out.splitlines()
    assert head.split()[:3] == ["POLICY", "WAIT", "WAIT"]
    assert [row.split()[0] for row in rows] == ["fifo", "sjf+easy"]


def test_garbage_collection_runs_less_often_than_by_default(windlass, small, collector):
    assert windlass("simulate", str(small), "--cluster", "2x4", "--policy", "fifo", "-j", "1").code == 0
    assert gc.get_threshold()[0] > 10 * collector[0]


def test_the_table_is_printed_as_json(windlass, small):
    ran = windlass("simulate", str(small), "--cluster", "2x4", "--policy", "fifo", "-j", "1", "-o", "json")
    (row,) = json.loads(ran.out)
    assert (row["policy"], row["runs"], row["jobs"], row["left_out"]) == ("fifo", 1, 12, {})
    assert row["offered_load"]["mean"] == pytest.approx(30 / (110 / 60 * 8))
    assert set(row["wait_avg"]) == {"mean", "sd"}


def test_several_seeds_without_random_values_are_noted(windlass, small):
    ran = windlass("simulate", str(small), "--cluster", "2x4", "--policy", "fifo", "--seeds", "3", "-j", "1")
    assert ran.code == 0
    assert ran.err == "nothing depends on the seed: each policy was run once\n"


def test_seeds_change_random_values(windlass):
    words = ("--synthetic", "jobs=30 load=1.2", "--cluster", "2x4", "--policy", "fifo", "--seeds", "4-6", "-j", "1")
    ran = windlass("simulate", *words, "-o", "json")
    (row,) = json.loads(ran.out)
    assert row["runs"] == 3
    assert row["wait_avg"]["sd"] > 0
    assert "±" in windlass("simulate", *words).out


def test_the_report_has_the_command_to_repeat_it_and_no_local_paths(windlass, small, tmp_path):
    out = tmp_path / "out"
    words = ("--cluster", "2x4", "--policy", "fifo", "--walltimes", "users", "--limit", "9", "--kill")
    ran = windlass("simulate", str(small), *words, "--report", str(out), "-j", "1")
    assert ran.err == f"report: {out / 'index.html'}\n"
    report = json.loads((out / "report.json").read_text())
    assert report["command"] == (
        "windlass simulate small.jsonl --cluster 2x4 --policy fifo --limit 9 --walltimes users --kill --report report"
    )
    assert report["sources"][0]["name"] == "small.jsonl"
    assert str(tmp_path) not in (out / "report.json").read_text() + (out / "index.html").read_text()


def test_faults_are_handled_by_the_controller(windlass, small):
    words = ("simulate", str(small), "--cluster", "2x4", "--policy", "fifo", "-j", "1", "-o", "json")
    (well,) = json.loads(windlass(*words).out)
    (ill,) = json.loads(windlass(*words, "--faults", "node=3h/30m", "--costs", "restart=5m").out)
    assert ill["jct_avg"]["mean"] > well["jct_avg"]["mean"]


def test_a_too_large_job_is_reported_with_its_file_as_given(windlass, small, tmp_path):
    large = tmp_path / "large.jsonl"
    large.write_text('{"id": "big", "submit": 1, "duration": 9, "gpus": 99}\n')
    ran = windlass("simulate", str(small), str(large), "--cluster", "2x4", "--policy", "fifo", "-j", "1")
    assert ran.err.startswith(f"windlass: {large}, row 1: job big asks for 99 GPUs, which this cluster of 2 nodes ")


def test_cores_are_not_counted_on_a_cluster_that_does_not_state_them(windlass, small, tmp_path):
    history = tmp_path / "history.jsonl"
    history.write_text(JOBS + '{"id": "plain", "submit": 7200000, "duration": 9000, "cpu": 4000}\n')
    words = ("simulate", str(history), "--policy", "fifo", "-j", "1")
    ran = windlass(*words, "--cluster", "2x4", "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)[0]["jobs"] == 13
    assert ran.err == (
        "Cores that jobs request are not counted, because the cluster does not state how many its nodes have.\n"
    )
    counted = tmp_path / "cluster.yaml"
    counted.write_text("nodes: [{name: n, count: 2, gpus: 4, cpus: 2}]\n")
    ran = windlass(*words, "--cluster", str(counted))
    assert (ran.code, ran.out) == (2, "")
    assert "job plain asks for 4 cores, which this cluster of 2 nodes cannot hold" in ran.err


@pytest.mark.parametrize("more", [(), ("--skip-bad",), ("--faults", "node=3h/30m")])
def test_jobs_without_gpus_on_a_cluster_without_cores_are_an_error_with_the_fix(windlass, tmp_path, more):
    history = tmp_path / "history.jsonl"
    history.write_text('{"id": "plain", "submit": 1, "duration": 9000, "cpu": 1000}\n')
    ran = windlass("simulate", str(history), "--cluster", "96x8", "--policy", "fifo", "-j", "1", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "windlass: no job of history.jsonl requests a GPU, and the cluster states no cores; "
        "name a cluster file with cpus\n"
    )


def test_bad_rows_are_skipped_and_counted(windlass, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(
        JOBS + '{"id": "x", "submit": 1, "duration": -5}\n{"id": "y", "submit": 9, "duration": 9, "gpus": 99}\n'
    )
    words = ("simulate", str(path), "--cluster", "2x4", "--policy", "fifo", "-j", "1")
    ran = windlass(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "bad.jsonl, row 13: " in ran.err
    assert "--skip-bad" in ran.err
    ran = windlass(*words, "--skip-bad")
    assert ran.code == 0
    assert ran.err == "skipped: 1 × negative value and 1 × too large for the cluster\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no trace\nname one or more files, or generate one: --synthetic 'jobs=1000 load=0.9'"),
        (("{small}",), "--cluster is missing; name a cluster file"),
        (("{small}", "--synthetic", "jobs=5", "--cluster", "2x4"), "remove one of them"),
        (("{small}", "--cluster", "0x4"), "--cluster 0x4: expects between 1 and 100,000 nodes"),
        (("{small}", "--cluster", "nowhere.yaml"), "nowhere.yaml"),
        (
            ("{small}", "--cluster", "2x4", "--policy", "esay"),
            "--policy: there is no policy 'esay'; did you mean 'easy'?",
        ),
        (
            ("{small}", "--cluster", "2x4", "--walltimes", "user"),
            "--walltimes does not know 'user'; did you mean 'users'?",
        ),
        (
            ("{small}", "--cluster", "2x4", "--format", "phily"),
            "--format does not know 'phily'; did you mean 'philly'?",
        ),
        (("{small}", "--cluster", "2x4", "--seeds", "some"), "seeds expects a count such as 5"),
        (("{small}", "--cluster", "1x2"), "which this cluster of 1 node cannot hold"),
        (("gone.csv", "--cluster", "2x4"), "gone.csv: cannot be read: No such file or directory"),
        (("{small}", "--cluster", "2x4", "--faults", "fire=1d"), "--faults: there are no faults 'fire'"),
        (("--synthetic", "jobs=none", "--cluster", "2x4"), "--synthetic: jobs expects a whole number"),
    ],
)
def test_an_invalid_option_is_one_clear_error(windlass, small, words, message):
    ran = windlass("simulate", *(word.format(small=small) for word in words), "-j", "1")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.startswith("windlass: ")


def test_policies_and_walltimes_are_completed(windlass, monkeypatch):
    def offered(words):
        monkeypatch.setenv("_WINDLASS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        return windlass().out.split()

    assert offered("windlass simulate --policy fifo,ea") == ["fifo,easy"]
    assert offered("windlass simulate --walltimes u") == ["users"]
    assert offered("windlass simulate --format ph") == ["philly"]
