"""Export of a checkpoint as one file: other programs read the values that were trained."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from windlass.cli.entry import main
from windlass.train.checkpoint import export
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.store.inventory import candidate_keys
from windlass.train.checkpoint.store.layout import folder_of
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


@pytest.fixture
def run(tmp_path, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    with CheckpointSaver(open_storage(str(tmp_path / "run")), new_rank_group(), after=None) as saver:
        saver.save({"model": model.state_dict(), "opt": optimizer.state_dict()}, 500, blocking=True)
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["out.pt", "out.safetensors"])
def test_a_model_alone_loads_into_the_same_model(run, tmp_path, model, name, capsys):
    target = tmp_path / name
    assert main(["checkpoint", "export", str(run), "--to", str(target), "--only", "model"]) == 0
    if name.endswith(".pt"):
        weights = torch.load(target, weights_only=True)
    else:
        weights = pytest.importorskip("safetensors.torch").load_file(target)
    again = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    again.load_state_dict(weights)
    wanted = model.state_dict()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in again.state_dict().items())
    assert capsys.readouterr().out.startswith(f"{target}: step 500, 9 tensors, ")


def test_an_export_of_everything_has_full_names(run, tmp_path, model):
    main(["checkpoint", "export", str(run), "--to", str(tmp_path / "out.pt")])
    whole = torch.load(tmp_path / "out.pt", weights_only=True)
    assert torch.equal(whole["model.0.weight"], model[0].weight)
    assert whole["opt.param_groups.0.lr"] == 0.25


def test_values_other_than_tensors_are_left_out_of_safetensors_with_a_message(run, tmp_path, capsys):
    assert main(["checkpoint", "export", str(run), "--to", str(tmp_path / "out.safetensors")]) == 0
    assert "12 values that are not tensors are only written to a .pt file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (["--to", "out.bin"], "use .safetensors, .pt or .pth"),
        (["--to", "out.pt", "--only", "modle"], "has no values under 'modle'; it has model, opt"),
        (["--to", "out.pt", "7"], "has no checkpoint of step 7; it has 500"),
        (["--to", "no/such/folder/out.pt"], "No such file or directory"),
    ],
)
def test_an_impossible_export_is_refused_with_the_valid_choices(run, tmp_path, monkeypatch, capsys, options, fix):
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoint", "export", str(run), *options]) != 0
    assert fix in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_a_run_does_not_remove_a_checkpoint_that_is_exported(run, tmp_path, monkeypatch):
    really, storage = export.read_state, open_storage(str(run))

    def read_state(*what):
        with CheckpointSaver(storage, new_rank_group(), after=500, keep=Retention(1)) as saver:
            saver.save({"model": {"w": torch.zeros(3)}}, 600, blocking=True)
        return really(*what)

    monkeypatch.setattr(export, "read_state", read_state)
    assert main(["checkpoint", "export", str(run), "--to", str(tmp_path / "out.pt")]) == 0
    assert len(torch.load(tmp_path / "out.pt", weights_only=True)) > 3
    with CheckpointSaver(storage, new_rank_group(), after=600, keep=Retention(1)) as saver:
        saver.save({"model": {"w": torch.zeros(3)}}, 700, blocking=True)
    assert [key.step for key in candidate_keys(storage)] == [700]


def test_a_damaged_checkpoint_is_not_exported(run, tmp_path, capsys):
    file = run / folder_of(500, 1) / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert main(["checkpoint", "export", str(run), "--to", str(tmp_path / "out.pt")]) == 2
    assert "__0_0.distcp was changed after it was written" in capsys.readouterr().err
