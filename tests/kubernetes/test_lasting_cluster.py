"""A cluster in the background: it survives the command, says what it does, refuses a second start, and ends whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import strays
from windlass.controlplane import lasting_cluster
from windlass.controlplane.cluster_folder import ClusterError, ClusterFolder, LastingSettings
from windlass.controlplane.lasting_cluster import LastingState, down, status, up

FAKE = LastingSettings(real=False)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    down(tmp_path / "cluster")


def processes_naming(text: str) -> list[str]:
    return [line for _, line in strays._commands() if text in line]


def wait_until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + strays.TIMEOUT_S
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def kubectl(root: Path, *words: str) -> str:
    command = [ClusterFolder(root).programs / "kubectl", "--kubeconfig", ClusterFolder(root).kubeconfig, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.controllers
@pytest.mark.installers
def test_a_cluster_with_fake_nodes_says_so_survives_its_command_and_ends_whole(root: Path) -> None:
    code = (
        "import sys, pathlib; from windlass.controlplane.lasting_cluster import up\n"
        "from windlass.controlplane.cluster_folder import LastingSettings\n"
        "up(pathlib.Path(sys.argv[1]), LastingSettings(real=False), print)"
    )
    told = subprocess.run([sys.executable, "-c", code, root], check=True, capture_output=True, text=True).stdout
    assert told.startswith("fake nodes, as requested: pods are Running on them, and no container runs\n")
    found = status(root)
    assert found.state is LastingState.READY
    assert found.running is not None
    assert (found.running.nodes, found.running.real) == (["n1", "n2"], False)
    assert kubectl(root, "get", "nodes", "-l", "windlass.dev/fake-node=true", "-o", "name") == "node/n1\nnode/n2\n"
    with pytest.raises(ClusterError, match=f"is up already \\(pid {found.pid}\\)"):
        up(root, FAKE, print)
    place = ClusterFolder(root).servers.readlink()
    assert down(root)
    assert status(root).state is LastingState.DOWN
    assert not processes_naming(str(place))
    assert not place.exists()
    assert sorted(file.name for file in root.iterdir()) == ["cluster.log", "lock"]
    assert not down(root)


@pytest.mark.controllers
@pytest.mark.installers
def test_leftovers_of_a_killed_cluster_are_removed_at_the_next_start(root: Path) -> None:
    first, place = up(root, FAKE, print), ClusterFolder(root).servers.readlink()
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: status(root).state is LastingState.KILLED)
    wait_until(lambda: not processes_naming(str(place)))
    told: list[str] = []
    second = up(root, FAKE, told.append)
    assert "removed what a killed cluster has left" in told
    assert second.pid != first.pid
    assert not place.exists()
    assert kubectl(root, "get", "nodes", "-o", "name") == "node/n1\nnode/n2\n"


@pytest.mark.controllers
@pytest.mark.installers
def test_companions_run_beside_the_cluster_restart_and_end_with_it(root: Path, tmp_path: Path) -> None:
    code = f"echo started $KUBECONFIG >> {tmp_path}/starts; exec sleep 1"
    up(root, LastingSettings(real=False, companions={"beside": ["sh", "-c", code]}), print)
    starts = tmp_path / "starts"
    wait_until(lambda: starts.exists() and len(starts.read_text().splitlines()) > 1)
    assert starts.read_text().splitlines()[0] == f"started {root}/kubeconfig"
    down(root)
    assert not processes_naming(str(tmp_path))


@pytest.mark.controllers
@pytest.mark.installers
def test_on_fake_nodes_a_pod_that_may_complete_does(root: Path, tmp_path: Path) -> None:
    up(root, FAKE, print)
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any", "command": ["true"]}]}
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}))
    kubectl(root, "apply", "-f", str(manifest))
    kubectl(root, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/one", "--timeout=60s")


@pytest.mark.controllers
@pytest.mark.installers
def test_a_start_that_fails_shows_the_reason_and_names_its_log(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho no space left on device\nexit 3\n")
        program.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    told: list[str] = []
    with pytest.raises(ClusterError, match=r"did not start: no space left on device\nits steps are in .*cluster\.log"):
        up(root, FAKE, told.append)
    assert any("etcd ended with 3" in line for line in told)
    assert status(root).state is LastingState.DOWN


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "999999999 5"])
def test_a_lock_of_no_living_process_is_no_cluster(root: Path, text: str) -> None:
    root.mkdir()
    (root / "lock").write_text(text)
    assert status(root).state is LastingState.DOWN


def test_real_nodes_that_are_demanded_are_refused_with_what_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_cluster, "missing_requirement", lambda: "real nodes need Linux and root")
    with pytest.raises(ClusterError, match="real nodes need Linux and root"):
        up(root, LastingSettings(real=True), print)


@pytest.mark.real_nodes
@pytest.mark.installers
def test_real_nodes_run_a_container_under_a_name_that_was_asked_for(root: Path) -> None:
    up(root, LastingSettings(real=True, images=("alpine:3.10",)), print)
    kubectl(root, "run", "hello", "--image=alpine:3.10", "--restart=Never", "--", "echo", "from a container")
    kubectl(root, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/hello", "--timeout=60s")
    assert kubectl(root, "logs", "hello") == "from a container\n"
    place = ClusterFolder(root).servers.readlink()
    assert down(root)
    assert not processes_naming(str(place))
