"""`windlass lab cluster` without a cluster: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.cli.entry import main
from windlass.controlplane.cluster_folder import Running
from windlass.controlplane.lasting_cluster import LastingState, LastingStatus
from windlass.labs import lab_cluster
from windlass.labs.errors import LabStateError
from windlass.labs.lab_cluster import LabClusterStatus

RUNNING = Running(7, 0.0, 9.5, "https://127.0.0.1:1", ("n1", "n2"), real=True, gpus=2, kueue=False)
READY = LastingStatus(LastingState.READY, RUNNING, 7)


@pytest.fixture(autouse=True)
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDLASS_LABS", str(tmp_path))
    return tmp_path


def test_no_cluster_is_said_with_the_command_that_starts_one(capsys):
    assert main(["lab", "cluster", "status"]) == 1
    assert capsys.readouterr().out == "the cluster is down\nstart it: windlass lab cluster up\n"
    assert main(["lab", "cluster", "down"]) == 0
    assert capsys.readouterr().out == "there is no cluster\n"


def test_up_says_which_nodes_there_are_and_how_a_shell_reaches_them(labs, monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr(lab_cluster, "cluster_up", lambda root, _report, **how: asked.update(how, root=root) or RUNNING)
    assert main(["lab", "cluster", "up", "--fake", "--gpus", "4"]) == 0
    assert asked == {"root": labs / ".workshop/cluster", "real": False, "kueue": False, "gpus": 4}
    output = capsys.readouterr().out
    assert "2 real nodes, with 2 declared GPUs each\n" in output
    assert (
        f'export KUBECONFIG="{labs}/.workshop/cluster/kubeconfig" PATH="{labs}/.workshop/cluster/bin:$PATH"' in output
    )


def test_a_second_start_is_refused_with_the_way_out(monkeypatch, capsys):
    def refuse(*_, **__):
        raise LabStateError("the cluster is up already (pid 7)\nend it: windlass lab cluster down")

    monkeypatch.setattr(lab_cluster, "cluster_up", refuse)
    assert main(["lab", "cluster", "up"]) == 5
    assert capsys.readouterr().err.endswith("is up already (pid 7)\nend it: windlass lab cluster down\n")


@pytest.mark.parametrize(
    ("found", "code", "line"),
    [
        (LabClusterStatus(READY, 2, "vm_1"), 0, "2 of 2 nodes ready, operator led by vm_1"),
        (LabClusterStatus(READY, 2, ""), 1, "2 of 2 nodes ready, operator without a leader"),
        (LabClusterStatus(READY, trouble="no answer"), 1, "no answer"),
        (LabClusterStatus(LastingStatus(LastingState.STARTING, step="start of 2 nodes")), 1, "start of 2 nodes"),
        (LabClusterStatus(LastingStatus(LastingState.KILLED)), 1, "its process was ended"),
    ],
)
def test_status_shows_the_operator_or_the_trouble(found, code, line, monkeypatch, capsys):
    monkeypatch.setattr(lab_cluster, "cluster_status", lambda _root: found)
    assert main(["lab", "cluster", "status"]) == code
    assert line in capsys.readouterr().out
    assert main(["lab", "cluster", "status", "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["state"] == found.cluster.state.value
