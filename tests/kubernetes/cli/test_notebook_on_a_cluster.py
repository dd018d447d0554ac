"""`windlass notebook` on an API server with fake kubelets, and a program in the place of kubectl."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.cluster import ControlPlane

from .cluster_terminal import Terminal

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
KUBECTL = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/called"
echo "Forwarding from 127.0.0.1:{port} -> 8888"
"""
IMAGE = ("--image", "example.com/notebook:1")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A kubectl that names the port of a server here, and ends; yields the file with its command lines."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL.format(port=server.server_port))
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    yield folder / "called"
    server.shutdown()
    server.server_close()


def test_a_notebook_gets_a_pod_a_secret_and_a_forwarded_port(apiserver: ControlPlane, tmp_path: Path, kubectl: Path):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        ran = await windlass("notebook", *IMAGE, "-G", "1", "--idle", "30m")
        assert (ran.code, ran.out[:17]) == (0, "http://127.0.0.1:"), ran
        token = ran.out.strip().partition("token=")[2]
        # 1. The token is in a Secret of the job alone.
        (job,) = (await place.api.get(namespaced(JOBS)))["items"]
        (pod,) = (await place.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        name = volumes["notebook-token"]["secret"]["secretName"]
        secret = await place.api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        assert base64.b64decode(secret["data"]["token"]).decode() == token
        assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        called = await asyncio.to_thread(kubectl.read_text)
        assert token not in json.dumps([job, pod]) + called + ran.err
        # 2. The pod has shared memory of its own, and the port is that of this pod.
        assert volumes["notebook-shm"]["emptyDir"] == {"medium": "Memory"}
        assert "--idle 1800" in " ".join(pod["spec"]["containers"][0]["command"])
        assert called.endswith(f"port-forward -n {NAMESPACE} pod/{pod['metadata']['name']} :8888\n")
        assert "its files end with the pod" in ran.err
        # 3. The same command finds it again.
        again = await windlass("notebook", *IMAGE)
        assert again.out == ran.out
        assert len((await place.api.get(namespaced(JOBS)))["items"]) == 1
        # 4. Another job of the name is refused.
        await windlass.done("submit", *IMAGE, "--name", "other", "--", Behaviour.RUN)
        refused = await windlass("notebook", *IMAGE, "--name", "other")
        assert (refused.code, "is no notebook and has its name" in refused.err) == (2, True)

    async def run() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 6), leading(apiserver, tmp_path) as place:
            about = {"name": "told", "annotations": {"windlass.dev/address": f"http://127.0.0.1:{place.port}"}}
            await place.api.post(LEASES, {"metadata": about, "spec": {}})
            try:
                await story(place, Terminal(apiserver.kubeconfig, tmp_path, "default/told"))
            finally:
                await place.api.delete(f"{LEASES}/told")

    asyncio.run(run())
