"""A lab starts once, continues, starts afresh, and is reset without touching anything else."""

import subprocess

import pytest
from small_lab import FILES, small_lab

from windlass.controlplane import lasting_cluster
from windlass.controlplane.cluster_folder import Running
from windlass.controlplane.lasting_cluster import LastingState, LastingStatus
from windlass.labs import lab_start
from windlass.labs.check_result import check_lab
from windlass.labs.errors import LabError, LabStateError
from windlass.labs.lab_reset import reset_lab
from windlass.labs.lab_start import start_lab
from windlass.labs.player import expected_refusal, play_script

FAKE = Running(1, 0.0, 1.0, "https://127.0.0.1", ["n1"], real=False, gpus=2, kueue=False)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_start_copies_the_files_writes_env_and_sets_up_once(lab, folders):
    started = start_lab(lab, folders, print)
    assert (started.was_started, started.restored) == (False, ())
    assert files_in(started.folder) == ["answer.txt", "data/note.txt", "env", "setup.log"]
    again = start_lab(lab, folders, print)
    assert (again.was_started, again.restored) == (True, ())
    assert (started.folder / "setup.log").read_text() == "set up\n"


def test_a_second_start_keeps_changed_files_and_restores_missing_ones(lab, folders):
    folder = start_lab(lab, folders, print).folder
    (folder / "answer.txt").write_text("mine\n")
    (folder / "data/note.txt").unlink()
    (folder / "env").write_text("changed by hand")
    again = start_lab(lab, folders, print)
    assert again.restored == ("data/note.txt",)
    assert (folder / "answer.txt").read_text() == "mine\n"
    assert "export WINDLASS_LAB=a7\n" in (folder / "env").read_text()


def test_a_fresh_start_begins_anew(lab, folders):
    folder = start_lab(lab, folders, print).folder
    (folder / "answer.txt").write_text("mine\n")
    assert not start_lab(lab, folders, print, fresh=True).was_started
    assert (folder / "answer.txt").read_text() == "41\n"


def test_a_start_whose_set_up_failed_is_tried_again(tmp_path, folders):
    broken = small_lab(tmp_path / "catalog", setup="echo no cluster; exit 3\n")
    with pytest.raises(LabError, match=r"setup.sh ended with 3\nno cluster"):
        start_lab(broken, folders, print)
    with pytest.raises(LabStateError, match="is not started"):
        check_lab(broken, folders)
    mended = small_lab(tmp_path / "catalog")
    assert not start_lab(mended, folders, print).was_started
    assert (folders.learner("a7") / "setup.log").exists()


def test_a_foreign_folder_is_refused_and_never_removed(lab, folders):
    folders.learner("a7").mkdir(parents=True)
    (folders.learner("a7") / "thesis.tex").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(LabStateError, match="is no folder of the workshop\nmove it away, or set WINDLASS_LABS"):
            start_lab(lab, folders, print, fresh=fresh)
    assert files_in(folders.root) == ["a7/thesis.tex"]


def test_env_gives_a_shell_the_variables_of_the_lab(lab, folders):
    folder = start_lab(lab, folders, print).folder
    line = ". ./env; echo $WINDLASS_LAB $WINDLASS_STATE ${WINDLASS_ON-none}; command -v python"
    ran = subprocess.run(
        ["sh", "-euc", line],
        check=True,
        cwd=folder,
        env={"PATH": "/bin", "WINDLASS_ON": "x"},
        capture_output=True,
        text=True,
    )
    first, python = ran.stdout.splitlines()
    assert first == f"a7 {folders.state('a7')} none"
    assert python != "/bin/python"


def test_a_reset_removes_the_folders_of_the_lab_alone(lab, folders):
    start_lab(lab, folders, print)
    other = folders.root / "mine.txt"
    other.write_text("stays")
    assert reset_lab(lab, folders, print) == 0
    assert files_in(folders.root) == ["mine.txt"]
    assert not folders.own("a7").exists()


def test_a_reset_of_a_link_that_took_the_place_of_the_folder_removes_the_link(lab, folders, tmp_path):
    folder = start_lab(lab, folders, print).folder
    target = tmp_path / "elsewhere"
    folder.rename(target)
    folder.symlink_to(target)
    reset_lab(lab, folders, print)
    assert not folder.is_symlink()
    assert (target / "answer.txt").exists()


def test_a_reset_goes_on_after_a_failed_clean_up_and_a_cluster_that_vanished(lab, folders):
    start_lab(lab, folders, print)
    (lab.folder / "cleanup.sh").write_text("exit 9\n")
    folders.kubeconfig("a7").write_text("of a cluster that is gone")
    said = []
    reset_lab(lab, folders, said.append)
    assert said == [
        "a7_answers/cleanup.sh ended with 9; the reset goes on",
        "there is no cluster of the workshop; the reset goes on",
    ]
    assert not folders.learner("a7").exists()


def test_the_player_sees_the_solution_accepted_and_the_mistake_refused(lab, folders):
    [solve], [mistake] = lab.scripts("solution"), lab.scripts("mistakes")
    assert play_script(lab, solve, folders, print).result.accepted
    refusal = play_script(lab, mistake, folders, print).result.refusal
    assert (refusal.what, refusal.fix) == ("the answer is right", "try 42")
    assert expected_refusal(mistake) == "try 42"


@pytest.mark.parametrize(
    ("need", "running", "message"),
    [
        ("cluster", None, "needs the cluster of the workshop\nwindlass lab cluster up"),
        ("real-nodes", FAKE, "needs real nodes, and those of the cluster are fake\nas root: windlass lab cluster down"),
        ("kueue", FAKE, "needs Kueue, which the cluster lacks\nwindlass lab cluster down, then .* --kueue"),
    ],
)
def test_a_cluster_that_lacks_what_a_lab_needs_is_named_with_the_way_out(
    tmp_path, folders, monkeypatch, need, running, message
):
    lab = small_lab(tmp_path / "catalog", lab=f"{FILES['lab.yaml']}needs: [{need}]\n")
    state = LastingState.DOWN if running is None else LastingState.READY
    monkeypatch.setattr(lasting_cluster, "status", lambda _root: LastingStatus(state, running))
    with pytest.raises(LabStateError, match=message):
        start_lab(lab, folders, print)
    assert not folders.root.exists()


def test_a_cluster_that_was_started_again_is_set_up_again(tmp_path, folders, monkeypatch):
    lab = small_lab(tmp_path / "catalog", lab=f"{FILES['lab.yaml']}needs: [cluster]\n")
    monkeypatch.setattr(lasting_cluster, "status", lambda _root: LastingStatus(LastingState.READY, FAKE))
    for is_new, times in ((True, 1), (False, 1), (True, 2)):
        monkeypatch.setattr(lab_start, "create_namespace", lambda *_, is_new=is_new: is_new)
        folder = start_lab(lab, folders, print).folder
        assert (folder / "setup.log").read_text() == "set up\n" * times


def test_the_first_start_creates_the_namespace_before_the_setup(tmp_path, folders, monkeypatch):
    lab = small_lab(tmp_path / "catalog", lab=f"{FILES['lab.yaml']}needs: [cluster]\n")
    monkeypatch.setattr(lasting_cluster, "status", lambda _root: LastingStatus(LastingState.READY, FAKE))
    created = []
    monkeypatch.setattr(lab_start, "create_namespace", lambda _folders, lab_id: created.append(lab_id) or True)
    assert not start_lab(lab, folders, print).was_started
    assert created == [lab.facts.id]


def test_the_commands_of_a_solution_can_be_typed_after_env(lab, folders):
    folder = start_lab(lab, folders, print).folder
    subprocess.run(["sh", "-euc", f". ./env; {FILES['solution/solve.sh']}"], cwd=folder, check=True)
    assert check_lab(lab, folders).accepted
