"""Kueue and the controller of JobSets beside a control plane, and definitions of kinds from Go modules.

Both programs are built by `tools/control_plane.py build kueue jobset`, in eight minutes on two cores. `make test` does
not build them: tests of Kueue are skipped where they do not exist.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .api import Api, ApiError
from .build import cache_folder, missing, place_of
from .cluster import ControlPlane
from .processes import Server, free_port
from .programs import JOBSET, KUEUE, MODULES, PROGRAMS, SCHEDULER_PLUGINS
from .toolchain import find_go

CONTROLLERS = ("kueue", "jobset")
_WEBHOOKS = {
    KUEUE: ("jobs", "jobsets", "workloads", "clusterqueues", "resourceflavors"),
    JOBSET: ("jobsets",),
}
"""Resources whose webhooks are registered: those of the kinds that tests use."""
_READY_WITHIN = 60.0
_OWN_ETC = 'mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && ln -s "$0" /etc/kueue/metrics/certs && exec "$@"'
"""Shell program with a folder and a command: Kueue reads the certificate of its metrics from a fixed path."""


@dataclass
class KueueServer(Server):
    """A server with its configuration file."""

    config: Path = Path()


def lacking(programs: Sequence[str] = CONTROLLERS) -> str:
    """Why tests with these programs cannot run; "" if they can."""
    names = missing(programs)
    return f"not built: {', '.join(names)} (tools/control_plane.py build {' '.join(names)})" if names else ""


@cache
def module_folder(module: str) -> Path:
    """The source of a module that Kueue requires, downloaded if it is missing. Raises subprocess.CalledProcessError."""
    go = find_go(cache_folder())
    command: list[str | Path] = [go, "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=MODULES / "kueue", capture_output=True, text=True, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def definitions(module: str, folder: str) -> list[dict[str, Any]]:
    """The objects in a folder of a module."""
    files = sorted((module_folder(module) / folder).glob("*.yaml"))
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each and "kind" in each]


async def install(api: Api, created: Sequence[dict[str, Any]]) -> None:
    """Creates definitions, and waits until their kinds are served."""
    for each in created:
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
    for each in created:
        spec = each["spec"]
        version = next(version["name"] for version in spec["versions"] if version["storage"])
        await api.until_found(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")


async def install_kueue(api: Api) -> None:
    """Creates the definitions of Kueue, JobSet and scheduler-plugins."""
    await install(api, definitions(KUEUE, "config/components/crd/bases"))
    await install(api, definitions(JOBSET, "config/components/crd/bases"))
    await install(api, definitions(SCHEDULER_PLUGINS, "config/crd/bases"))
    await api.post("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})


@contextmanager
def kueue_servers(plane: ControlPlane, external: Sequence[str] = ()) -> Iterator[tuple[KueueServer, ...]]:
    """Runs Kueue and the controller of JobSets. `external`: kinds of jobs whose Workloads others create."""
    certificates = plane.folder / "webhooks"
    certificates.mkdir(exist_ok=True)
    pair = plane.authority.server(plane.folder, "webhooks", ["127.0.0.1"])
    shutil.copy(pair.certificate, certificates / "tls.crt")
    shutil.copy(pair.key, certificates / "tls.key")
    ports = {module: free_port() for module in (KUEUE, JOBSET)}
    servers = [
        _server(plane, "kueue", _kueue_config(certificates, ports[KUEUE], external), _own_etc(certificates)),
        _server(plane, "jobset", _job_set_config(certificates, ports[JOBSET])),
    ]
    try:
        for each in servers:
            each.start()
        yield tuple(servers)
    finally:
        for each in servers:
            each.kill()


async def register_webhooks(api: Api, plane: ControlPlane, servers: Sequence[KueueServer]) -> None:
    """Registers the webhooks of running servers under their addresses."""
    for module, server in zip((KUEUE, JOBSET), servers, strict=True):
        config = yaml.safe_load(server.config.read_text())
        for each in definitions(module, "config/components/webhook"):
            if each["kind"].endswith("WebhookConfiguration"):
                each["metadata"] = {"name": f"{server.name}-{each['kind'].lower()}"}
                url = f"https://127.0.0.1:{config['webhook']['port']}"
                each["webhooks"] = list(_webhooks(each, plane, url, _WEBHOOKS[module]))
                await api.post(f"/apis/admissionregistration.k8s.io/v1/{each['kind'].lower()}s", each)


def _webhooks(
    configuration: dict[str, Any], plane: ControlPlane, url: str, resources: Sequence[str]
) -> Iterator[dict[str, Any]]:
    bundle = base64.b64encode(plane.authority.pair.certificate.read_bytes()).decode()
    for each in configuration["webhooks"]:
        if any(resource in resources for rule in each["rules"] for resource in rule["resources"]):
            path = each["clientConfig"]["service"]["path"]
            yield {**each, "clientConfig": {"url": f"{url}{path}", "caBundle": bundle}}


async def until_answered(api: Api, path: str, body: object, servers: Sequence[Server]) -> dict[str, Any]:
    """Creates an object that a webhook checks, as soon as the webhook answers."""
    give_up = time.monotonic() + _READY_WITHIN
    while True:
        try:
            return await api.post(path, body)
        except ApiError as error:
            for server in servers:
                server.check_running()
            if "failed calling webhook" not in str(error) or time.monotonic() > give_up:
                raise
        await asyncio.sleep(0.1)


def _own_etc(certificates: Path) -> Sequence[str]:
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", _OWN_ETC, str(certificates))


def _server(plane: ControlPlane, name: str, config: dict[str, Any], prefix: Sequence[str] = ()) -> KueueServer:
    file = plane.folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(config))
    options = ["--metrics-bind-address=0"] if name == "jobset" else []
    command: list[str | Path] = [*prefix, place_of(PROGRAMS[name]), *options, f"--config={file}"]
    env = {"KUBECONFIG": str(plane.kubeconfig)}
    return KueueServer(name, command, plane.folder / f"{name}.log", env=env, config=file)


def _config(certificates: Path, port: int) -> dict[str, Any]:
    return {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 500},
    }


def _kueue_config(certificates: Path, port: int, external: Sequence[str]) -> dict[str, Any]:
    frameworks = {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"], "externalFrameworks": list(external)}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        **_config(certificates, port),
        "namespace": "kueue-system",
        "integrations": frameworks,
        "featureGates": {"VisibilityOnDemand": False},  # its server needs an aggregated API
    }


def _job_set_config(certificates: Path, port: int) -> dict[str, Any]:
    return {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", **_config(certificates, port)}
