"""`windlass lab`: what a learner types and reads, with a catalog of one small lab."""

import io
import json
import subprocess
import sys

import pytest
from small_lab import small_lab

from windlass.labs import lab_catalog


@pytest.fixture
def learner(windlass, monkeypatch, tmp_path):
    """Runs the verb with a catalog and a root of its own; returns the runner and the learner's folder."""
    small_lab(tmp_path / "catalog")
    monkeypatch.setattr(lab_catalog, "CATALOG", tmp_path / "catalog")
    monkeypatch.setenv("WINDLASS_LABS", str(tmp_path / "labs"))
    return (lambda *words: windlass("lab", *words)), tmp_path / "labs/a7"


def state_of(lab):
    [row] = json.loads(lab("list", "-o", "json").out)
    return row["state"]


def test_the_way_of_a_learner(learner):
    lab, folder = learner
    assert state_of(lab) == "new"
    started = lab("start", "a7")
    assert (started.code, started.out) == (0, "# A7: Answers\n\n```sh\necho 42 > answer.txt\n```\n")
    assert started.err == f"cd {folder} && . ./env\n"
    refused = lab("check", "a7")
    assert refused.code == 1
    assert refused.out == (
        " ok  the lab is started\n no  the answer is right\n     next: try 42\na7 is not accepted yet\n"
    )
    (folder / "answer.txt").write_text("42\n")
    assert state_of(lab) == "started"
    accepted = lab("check", "a7", "-o", "json")
    assert accepted.code == 0
    assert json.loads(accepted.out)["accepted"] is True
    assert state_of(lab) == "accepted"
    assert lab("reset", "a7").out == "a7 is reset: 0 processes ended, its folder removed\n"
    assert not folder.exists()
    assert state_of(lab) == "accepted"


def test_a_second_start_says_so_and_keeps_the_files(learner):
    lab, folder = learner
    lab("start", "a7")
    (folder / "answer.txt").unlink()
    assert lab("start", "a7").err.splitlines() == [
        "a7 was started before: your files stay; restored: answer.txt (--fresh begins anew)",
        f"cd {folder} && . ./env",
    ]


def test_the_environment_of_a_lab_names_it(learner, monkeypatch):
    lab, _ = learner
    unnamed = lab("check")
    assert (unnamed.code, unnamed.err) == (2, "windlass: name a lab\nwindlass lab list shows all labs\n")
    monkeypatch.setenv("WINDLASS_LAB", "a7")
    unstarted = lab("check")
    assert (unstarted.code, unstarted.err) == (5, "windlass: the lab a7 is not started\nwindlass lab start a7\n")
    assert lab("reset").out == "a7 is not started: nothing to reset\n"


def test_a_folder_that_is_gone_is_named_and_comes_back(learner):
    lab, folder = learner
    lab("start", "a7")
    folder.rename(folder.parent / "moved")
    assert state_of(lab) == "folder gone"
    assert lab("check", "a7").code == 5
    assert lab("start", "a7").code == 0
    assert (folder / "answer.txt").exists()


def test_each_hint_is_nearer_than_the_one_before(learner):
    lab, _ = learner
    assert [lab("hint", "a7").out for _ in range(4)] == ["Think.\n", "Think again.\n", "It is 42.\n", "It is 42.\n"]
    assert lab("hint", "a7", "--number", "1").out == "Think.\n"
    assert lab("hint", "a7", "--number", "9").err == "windlass: a7 has 3 hints\nuse --number 1 to 3\n"


def test_a_solution_is_shown_as_commands_and_differences(learner):
    shown = learner[0]("solution", "a7")
    assert shown.code == 0
    assert "+42" in shown.out


def test_a_quiz_explains_each_answer_and_keeps_the_score(learner, monkeypatch):
    lab, folder = learner
    monkeypatch.setattr("sys.stdin", io.StringIO("9\nx\n" + "1\n" * 50))
    asked = lab("quiz", "c", "--when", "before")
    assert asked.code == 0
    assert asked.out.count("answer: an answer is a number from 1 to") == 2
    assert asked.out.splitlines()[-1].endswith("right")
    scores = json.loads((folder.parent / ".workshop/progress.json").read_text())["quizzes"]
    assert scores.keys() == {"c-before"}
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n" * 50))
    assert "after the labs" in lab("quiz", "c").out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert lab("quiz", "c").err.endswith("the input has ended\ntype a number for each question\n")


def test_cards_are_listed_and_printed(learner):
    lab, _ = learner
    names = [line.split()[0] for line in lab("card").out.splitlines()]
    assert "gangs" in names
    assert lab("card", "gangs").out.startswith("# ")
    assert lab("card", "gang").err.startswith("windlass: there is no card 'gang'; did you mean 'gangs'?\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [("lab start a", ["a7"]), ("lab quiz ", list("abcdefghijkl")), ("lab card gan", ["gangs"])],
)
def test_labs_quizzes_and_cards_are_completed(learner, windlass, monkeypatch, words, expected):
    monkeypatch.setenv("_WINDLASS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"windlass {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    assert windlass().out.split() == expected


def test_the_verb_needs_no_library_of_kubernetes_and_no_torch():
    heavy = "{'aiohttp', 'kubernetes_asyncio', 'torch', 'numpy'}"
    code = f"import sys, windlass.cli.verbs.lab; print({heavy} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
