"""`windlass checkpoint` on hand-made folders, without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from windlass import wire
from windlass.backends.local.paths import prepare_folder
from windlass.backends.local.state_store import Notes, open_store
from windlass.backends.port import Changes
from windlass.cli.terminal.formatting import format_time
from windlass.train.checkpoint.store.folder_storage import FolderStorage
from windlass.train.checkpoint.store.layout import CONTROL, LATEST, folder_of
from windlass.train.checkpoint.store.manifest import OBJECT, FileFact, Manifest, TensorFact, to_json
from windlass.train.checkpoint.store.reader_lease import hold_for_reading
from windlass.train.checkpoint.store.storage import open_storage


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


AT = format_time(1_700_000_000_000).split()


def save(folder, step, data=b"some weights", facts=None):
    """Writes a checkpoint with one data file and its manifest."""
    place = open_storage(str(folder))
    name = folder_of(step)
    staging = place.staging_directory(name, 0)
    (staging / "__0_0.distcp").write_bytes(data)
    files = {"__0_0.distcp": FileFact(len(data), zlib.crc32(data))}
    tensors = {"model.w": TensorFact((2, 3), "float32"), "opt.lr": TensorFact((), OBJECT)}
    manifest = Manifest(step, step * 8, "dp=2,tp=2", 4, 1_700_000_000_000, files, tensors, facts or {"seed": 1})
    place.commit(name, to_json(manifest), {"__0_0.distcp": len(data)})
    place.write(LATEST, name.encode())


@pytest.fixture
def run(tmp_path):
    """A run with three checkpoints, and one that is being written."""
    for step in (100, 200, 300):
        save(tmp_path / "run", step)
    (tmp_path / "run/step-00000400.tmp").mkdir()
    return tmp_path / "run"


def test_the_cost_of_a_save_is_read_from_the_next_checkpoint(windlass, tmp_path):
    save(tmp_path, 100)
    save(tmp_path, 200, facts={"cost": {"step": 100, "stall": 0.0051, "duration": 2.5, "size": 12}})
    newer, older = json.loads(windlass("checkpoint", "ls", str(tmp_path), "-o", "json").out)
    assert newer["cost"] is None
    assert older["cost"] == {"step": 100, "stall": 0.0051, "duration": 2.5, "size": 12}
    wide = windlass("checkpoint", "ls", str(tmp_path), "-o", "wide").out.splitlines()
    assert "5.1 ms  2.5 s" in wide[2]


def damage(run, step):
    (run / folder_of(step) / "__0_0.distcp").write_bytes(b"some weightz")


def test_a_listing_is_newest_first_with_unfinished_ones_last(windlass, run):
    ran = windlass("checkpoint", "ls", str(run))
    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["STEP", "STATE", "SIZE", "SAVED", "SAMPLES", "RANKS", "MESH", "WHY"],
        ["300", "complete", "12", "B", *AT, "2400", "4", "dp=2,tp=2", "-"],
        ["200", "complete", "12", "B", *AT, "1600", "4", "dp=2,tp=2", "-"],
        ["100", "complete", "12", "B", *AT, "800", "4", "dp=2,tp=2", "-"],
        ["-", "unfinished", "-", "-", "-", "-", "-", "-"],
    ]


def test_listings_as_json_and_as_names(windlass, run):
    output = json.loads(windlass("checkpoint", "ls", str(run), "-o", "json").out)
    assert output[0] == {
        "step": 300,
        "state": "complete",
        "folder": "step-00000300",
        "size": 12,
        "saved_at": 1_700_000_000_000,
        "samples": 2400,
        "ranks": 4,
        "mesh": "dp=2,tp=2",
        "files": 1,
        "tensors": 1,
        "facts": {"seed": 1},
        "why": "",
        "cost": None,
    }
    names = windlass("checkpoint", "ls", str(run), "-o", "name").out.split()
    assert names == ["step-00000300", "step-00000200", "step-00000100", "step-00000400.tmp"]


def test_a_listing_detects_missing_files_and_wrong_sizes(windlass, run):
    (run / folder_of(300) / "__0_0.distcp").write_bytes(b"cut")
    (run / folder_of(200) / "__0_0.distcp").unlink()
    rows = json.loads(windlass("checkpoint", "ls", str(run), "-o", "json").out)
    assert [(row["state"], row["why"]) for row in rows[:2]] == [
        ("damaged", "__0_0.distcp has 3 bytes, and 12 were written"),
        ("damaged", "__0_0.distcp is missing"),
    ]


@pytest.mark.parametrize("how", ["table", "json"])
def test_an_empty_folder_has_no_checkpoints(windlass, tmp_path, how):
    ran = windlass("checkpoint", "ls", str(tmp_path), "-o", how)
    assert ran.code == 0
    assert (ran.err if how == "table" else ran.out).strip() == {
        "table": "there are no checkpoints here",
        "json": "[]",
    }[how]


@pytest.mark.parametrize("words", ["ls", "verify", "prune --keep 1", "export --to out.pt"])
def test_a_missing_folder_is_one_error(windlass, tmp_path, words):
    verb, *options = words.split()
    ran = windlass("checkpoint", verb, str(tmp_path / "nowhere"), *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"windlass: there is no folder {tmp_path}/nowhere\n"
        "name the folder or the address in which the run keeps them; its log names it: "
        "windlass logs JOB --grep 'checkpoints in'\n"
    )


@pytest.fixture
def job(tmp_path, monkeypatch, made):
    """A recorded job whose ranks keep checkpoints in tmp_path/run; the current folder is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    state = made.running()
    roles = (replace(state.job.roles[0], env={wire.CHECKPOINTS: str(tmp_path / "run")}),)
    with closing(open_store(prepare_folder(tmp_path / "state"))) as store:
        store.commit(Changes(states=(replace(state, job=replace(state.job, roles=roles)),)), Notes())
    return "digits"


def test_a_job_selects_the_place_of_its_checkpoints_and_prints_it(windlass, run, job):
    ran = windlass("checkpoint", "ls", job, "-o", "name")
    assert (ran.code, ran.err) == (0, f"checkpoints of job digits-1, in {run}\n")
    assert ran.out == windlass("checkpoint", "ls", str(run), "-o", "name").out


@pytest.mark.parametrize("words", ["verify", "prune --keep 9"])
def test_other_verbs_accept_a_job_too(windlass, run, job, words):
    verb, *options = words.split()
    ran = windlass("checkpoint", verb, f"{job}-1", *options)
    assert (ran.code, ran.err) == (0, f"checkpoints of job digits-1, in {run}\n")


def test_a_folder_of_the_same_name_takes_precedence(windlass, run, job):
    Path(job).mkdir()
    assert windlass("checkpoint", "ls", job).err == "there are no checkpoints here\n"
    assert windlass("checkpoint", "ls", f"./{job}-1").code == 2


def test_a_job_without_checkpoints_is_an_error(windlass, job, tmp_path):
    ran = windlass("checkpoint", "ls", job)
    assert ran.code == 2
    assert ran.err == (
        f"windlass: job digits-1 has no checkpoints in {tmp_path}/run\n"
        "it has saved none yet, or its script names another place: "
        "windlass logs digits-1 --grep 'checkpoints in'\n"
    )


def test_a_name_that_is_neither_a_folder_nor_a_job_is_an_error(windlass, job, tmp_path):
    ran = windlass("checkpoint", "ls", "digitz")
    assert ran.code == 2
    message = f"windlass: there is no folder {tmp_path}/here/digitz, and no job is called 'digitz'; did you mean digits"
    assert ran.err.startswith(message)


def test_all_checkpoints_are_verified(windlass, run):
    ran = windlass("checkpoint", "verify", str(run))
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [
        ["300", "good"],
        ["200", "good"],
        ["100", "good"],
    ]


def test_a_flipped_bit_is_reported_with_its_file_and_an_exit_code(windlass, run):
    damage(run, 200)
    ran = windlass("checkpoint", "verify", str(run), "-o", "json")
    assert ran.code == 1
    assert [(row["step"], row["verdict"], row["file"]) for row in json.loads(ran.out)] == [
        (300, "good", ""),
        (200, "damaged", "__0_0.distcp"),
        (100, "good", ""),
    ]
    assert "was changed after it was written (CRC-32 " in ran.out


def test_one_step_is_verified(windlass, run):
    damage(run, 200)
    assert windlass("checkpoint", "verify", str(run), "300").code == 0
    assert windlass("checkpoint", "verify", str(run), "200").code == 1


def test_a_changed_manifest_is_detected(windlass, run):
    manifest = run / folder_of(100) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"samples": 800', '"samples": 801'))
    ran = windlass("checkpoint", "verify", str(run), "100")
    assert ran.code == 1
    assert "manifest.json  does not match its own checksum" in ran.out


def test_a_manifest_in_the_folder_of_another_step_is_detected(windlass, run):
    (run / folder_of(100)).rename(run / folder_of(150))
    ran = windlass("checkpoint", "verify", str(run), "150")
    assert (ran.code, "manifest.json  is of step 100" in ran.out) == (1, True)


def test_a_missing_step_is_refused_with_the_existing_ones(windlass, run):
    ran = windlass("checkpoint", "verify", str(run), "250")
    assert (ran.code, ran.err) == (2, f"windlass: {run} has no checkpoint of step 250; it has 300, 200, 100\n")


def test_verifying_an_empty_folder_fails(windlass, tmp_path):
    assert windlass("checkpoint", "verify", str(tmp_path)).code == 1


def test_pruning_keeps_the_newest(windlass, run):
    ran = windlass("checkpoint", "prune", str(run), "--keep", "1")
    assert (ran.code, ran.out) == (0, "removed step 100\nremoved step 200\n")
    assert sorted(entry.name for entry in run.iterdir()) == [CONTROL, LATEST, folder_of(300), "step-00000400.tmp"]


def test_pruning_keeps_one_checkpoint_per_interval(windlass, run):
    ran = windlass("checkpoint", "prune", str(run), "--keep", "1", "--keep-every", "1000")
    assert ran.out == "removed step 200\n"


def test_a_dry_run_removes_nothing(windlass, run):
    ran = windlass("checkpoint", "prune", str(run), "--keep", "2", "--dry-run")
    assert ran.out == "would remove step 100\n"
    assert (run / folder_of(100)).exists()


def test_a_damaged_checkpoint_is_not_kept_instead_of_a_complete_one(windlass, run):
    (run / folder_of(300) / "__0_0.distcp").unlink()
    ran = windlass("checkpoint", "prune", str(run), "--keep", "1")
    assert ran.out == "removed step 100\n"
    assert (run / folder_of(300)).exists(), "the newest is for a person to look at"


def test_a_checkpoint_that_is_read_is_not_pruned(windlass, run):
    with hold_for_reading(open_storage(str(run)), folder_of(100), print):
        ran = windlass("checkpoint", "prune", str(run), "--keep", "1")
    assert (ran.code, ran.out) == (0, "removed step 200\n")
    assert ran.err.startswith(f"step 100 stays: it is read by process {os.getpid()} on ")
    assert windlass("checkpoint", "prune", str(run), "--keep", "1").out == "removed step 100\n"


def test_a_checkpoint_that_its_run_removes_meanwhile_is_not_reported_as_damaged(windlass, run, monkeypatch):
    really = FolderStorage.create

    def create(self, name, data):
        if folder_of(100) in name:
            self.remove(folder_of(100))
        return really(self, name, data)

    monkeypatch.setattr(FolderStorage, "create", create)
    ran = windlass("checkpoint", "verify", str(run))
    assert (ran.code, [line.split()[:2] for line in ran.out.splitlines()[1:]]) == (
        0,
        [["300", "good"], ["200", "good"]],
    )


def test_pruning_removes_nothing_if_all_are_damaged(windlass, run):
    for step in (100, 200, 300):
        (run / folder_of(step) / "__0_0.distcp").unlink()
    assert windlass("checkpoint", "prune", str(run), "--keep", "1").out == "there is nothing to remove\n"


def test_pruning_all_checkpoints_is_refused(windlass, run):
    assert windlass("checkpoint", "prune", str(run), "--keep", "0").code == 2


def test_export_says_that_it_needs_torch(windlass, run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed, whatever other tests have loaded
    monkeypatch.delitem(sys.modules, "windlass.train.checkpoint.export", raising=False)
    monkeypatch.delattr("windlass.train.checkpoint.export", raising=False)
    ran = windlass("checkpoint", "export", str(run), "--to", str(tmp_path / "out.pt"))
    assert (ran.code, ran.err) == (
        2,
        "windlass: torch, which exports need, is missing\npip install 'windlass-train[train]'\n",
    )


def test_a_place_that_is_a_file_is_one_error(windlass, tmp_path):
    (tmp_path / "file").write_text("")
    ran = windlass("checkpoint", "ls", str(tmp_path / "file"))
    assert ran.code == 74
    assert ran.err.endswith("listing it: Not a directory\npart of its path is a file: use another location\n")


@pytest.mark.parametrize("words", ["ls", "verify", "prune --keep 1"])
def test_neither_torch_nor_numpy_nor_fsspec_is_loaded(run, words):
    verb, *options = words.split()
    code = (
        "import sys; from windlass.cli.entry import main; main(sys.argv[1:]);"
        "print({'torch', 'numpy', 'fsspec', 'msgspec'} & sys.modules.keys())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "checkpoint", verb, str(run), *options], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "set()"
