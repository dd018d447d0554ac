"""A user of one namespace of a cluster, with kubectl and windlass."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from windlass.controlplane import kubeconfig
from windlass.controlplane.build import find
from windlass.controlplane.real_nodes import RealCluster

T = TypeVar("T")
TIMEOUT_S = 240.0
"""Seconds: two processes that import torch take ten on an idle machine."""
IMAGE = "windlass-examples:1"
WINDLASS = Path(sys.executable).with_name("windlass")
ROOT = Path(__file__).resolve().parents[3]
NEW_KIND = "There can be a delay between when CustomResourceDefinitions are created and when they are available"
"""Refusal of an object while its kind is new: mutating policies read the schemas of kinds every 5 s."""
API_ROOTS = {
    "pods": "/api/v1",
    "events": "/apis/events.k8s.io/v1",
    "trainingjobs": "/apis/windlass.dev/v1alpha1",
    "pytorchjobs": "/apis/kubeflow.org/v1",
    "mpijobs": "/apis/kubeflow.org/v2beta1",
}


@dataclass
class User:
    """Commands must succeed; the test fails with their output otherwise."""

    kubeconfig: Path
    namespace: str

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self._run([*self._kubectl(), *words], stdin)

    def windlass(self, *words: str, folder: Path | None = None) -> str:
        return self._run([str(WINDLASS), *words], None, folder)

    def doctor(self, job: str) -> Any:
        """The diagnosis of a job as data: the verb exits with 1 if it names a cause."""
        ran = self._ran([str(WINDLASS), "doctor", job, "--on", "kubernetes", "-n", self.namespace, "-o", "json"], None)
        assert ran.returncode in (0, 1), ran.stderr
        return json.loads(ran.stdout)

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        until("the API server to accept the kinds", lambda: self._is_applied(text))

    def _is_applied(self, manifests: str) -> bool:
        """Whether manifests are applied now; only a kind that the API server does not know yet may prevent it."""
        ran = self._ran([*self._kubectl(), "apply", "-f", "-"], manifests)
        assert ran.returncode == 0 or NEW_KIND in ran.stderr, ran.stderr
        return ran.returncode == 0

    def read(self, what: str, **query: str) -> Any:
        """An object ("pods/digits-master-0") or a list ("pods")."""
        root = API_ROOTS[what.partition("/")[0]]
        return json.loads(self._get(f"{root}/namespaces/{self.namespace}/{what}?{urlencode(query)}"))

    def log(self, pod: str) -> str:
        return self._get(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log").decode()

    def _get(self, path: str) -> bytes:
        """Asks the API server itself: polls ask often, and each kubectl takes 0.1 s of CPU."""
        access = kubeconfig.read(self.kubeconfig)
        server = urlsplit(access.url)
        with closing(http.client.HTTPSConnection(server.netloc, context=access.ssl(), timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, f"{path}: {body!r}"
        return body

    def status(self, what: str) -> Mapping[str, Any]:
        """Of a job: "pytorchjobs/digits"."""
        return self.read(what).get("status") or {}

    def pods(self, generation: int) -> list[dict[str, Any]]:
        """Pods by name, of the only job in this namespace."""
        return list(self.read("pods", labelSelector=f"windlass.dev/generation={generation}")["items"])

    def running(self, generation: int, count: int) -> bool:
        """Whether so many pods of a generation run."""
        return [pod["status"]["phase"] for pod in self.pods(generation)] == ["Running"] * count

    def ended(self, what: str, kind: str = "Succeeded") -> bool:
        """Whether a job has reached this phase; another end fails the test."""
        true = true_conditions(self.status(what))
        assert not (true.keys() & {"Succeeded", "Failed"}) - {kind}, true
        return kind in true

    def events(self, what: str) -> list[tuple[str, str]]:
        """Reasons and messages of the events of a job, in order."""
        kind, _, name = what.partition("/")
        items = self.read("events", fieldSelector=f"regarding.kind={kind},regarding.name={name}")
        found = sorted(items["items"], key=lambda each: each["eventTime"])
        return [(each["reason"], each["note"]) for each in found]

    def follow(self, pod: str) -> Iterator[str]:
        """Lines of the log of a pod, as they are written."""
        with subprocess.Popen(
            [*self._kubectl(), "logs", "-f", pod], env=self._env(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield from process.stdout
            finally:
                process.kill()

    def _run(self, command: Sequence[str], stdin: str | None, folder: Path | None = None) -> str:
        ran = self._ran(command, stdin, folder)
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def _ran(
        self, command: Sequence[str], stdin: str | None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=folder, env=self._env(), input=stdin, capture_output=True, text=True, check=False
        )

    def _kubectl(self) -> list[str]:
        return [str(find("kubectl")), "-n", self.namespace]

    def _env(self) -> dict[str, str]:
        nowhere = {"WINDLASS_CONFIG": os.devnull, "WINDLASS_STATE": "/nonexistent"}
        return {**os.environ, **nowhere, "KUBECONFIG": str(self.kubeconfig)}


def in_new_namespace(real: RealCluster, namespace: str) -> User:
    user = User(real.plane.kubeconfig, namespace)
    user.kubectl("create", "namespace", namespace)
    return user


@contextmanager
def inside(real: RealCluster, namespace: str) -> Iterator[User]:
    """A new namespace, deleted afterwards with all its objects.

    Pods that have ended, which hold nothing, and the namespace itself stay for longer: Kubernetes begins after 5 s, and
    needs the operator's answers to queries (an aggregated API).
    """
    user = in_new_namespace(real, namespace)
    try:
        yield user
    finally:
        user.kubectl("delete", "namespace", namespace, "--wait=false")
        until(f"no pod of {namespace} runs", lambda: not _phases(user) - {"Succeeded", "Failed"})


def _phases(user: User) -> set[str]:
    return {pod["status"]["phase"] for pod in user.read("pods")["items"]}


def until(what: str, found: Callable[[], T], timeout: float = TIMEOUT_S) -> T:
    """Polls until `found` returns a value; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (result := found()):
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.2)
    return result


def true_conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """Messages by type."""
    return {each["type"]: each.get("message", "") for each in status.get("conditions", ()) if each["status"] == "True"}


def processes_of(pod: Mapping[str, Any]) -> list[int]:
    """Process ids of a pod's containers on this machine, by the cgroups named after the containers' ids."""
    ids = [each["containerID"].rpartition("/")[2] for each in pod["status"]["containerStatuses"]]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if any(each in (folder / "cgroup").read_text() for each in ids):
                found.append(int(folder.name))
    return sorted(found)


def provide_checkpoints(user: User, folder: Path) -> None:
    """Creates a claim of that name, and a volume that both nodes have."""
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        **shared,
        "capacity": size,
        "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
        "claimRef": {"namespace": user.namespace, "name": "checkpoints"},
    }
    user.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": user.namespace}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "checkpoints"},
            "spec": {**shared, "resources": {"requests": size}},
        },
    )
