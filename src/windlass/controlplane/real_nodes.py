"""Two nodes that run real containers: kubelet, containerd and Debian's runc, each on a machine of its own.

Root and Linux only. Pods have addresses that everybody reaches, services have names (`services`), and every image name
added by `know_images` is the image of `images`. Nodes announce devices that they do not have.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from . import cgroups, cluster, images, kubeconfig
from .api import ApiError
from .build import find
from .cluster import ControlPlane, Settings
from .images import IMAGE
from .machines import Machine, Wire, boot, lay_wire, run
from .processes import Server

NEEDED = ("runc", "ip", "nsenter", "unshare", "setpriv")
PREFIX = "windlass-"
"""Prefix of the cgroups of these nodes."""
CNI = Path("/usr/lib/cni")
PACKAGES = "runc containernetworking-plugins iproute2 util-linux openmpi-bin openssh-server openssh-client"
"""Packages of Debian; the last three are for MPI jobs."""
EVERYWHERE = "0.0.0.0"  # noqa: S104 - for this host at 127.0.0.1, for nodes on their wire
READY_WITHIN = 90.0
"""Seconds until a node is ready; it takes ten on an idle machine."""


@dataclass
class RealNode:
    """`kubelet.pause()` makes the node silent while its containers run on; `machine.power_off()` ends everything."""

    name: str
    machine: Machine
    containerd: Server
    kubelet: Server

    def ctr(self, *command: str) -> str:
        """Runs `ctr --namespace k8s.io` against its containerd."""
        return self.machine.run(find("ctr"), "--address", _socket(self.machine), "--namespace", "k8s.io", *command)

    def know_images(self, *names: str) -> None:
        """Adds image names as manifests have them; names without a registry are Docker's."""
        for name in names:
            self.ctr("images", "tag", "--force", IMAGE, _whole(name))


@dataclass
class RealCluster:
    """`plane` is grade 2; `nodes` are ready, with `gpus` of nvidia.com/gpu each."""

    plane: ControlPlane
    wire: Wire
    services: Server
    nodes: Sequence[RealNode]

    @property
    def inner_url(self) -> str:
        """URL of the API server for pods and nodes."""
        return f"https://{self.wire.address}:{self.plane.url.rpartition(':')[2]}"

    @property
    def servers(self) -> list[Server]:
        """The servers of the nodes, and the services of their pods."""
        return [self.services, *(server for node in self.nodes for server in (node.containerd, node.kubelet))]

    def know_images(self, *names: str) -> None:
        """Adds image names to every node."""
        for node in self.nodes:
            node.know_images(*names)

    async def ready(self) -> None:
        """Waits until every node is ready. Raises RuntimeError."""
        give_up = time.monotonic() + READY_WITHIN
        for node in self.nodes:
            while not await self.is_ready(node):
                node.kubelet.check_running()
                node.containerd.check_running()
                if time.monotonic() > give_up:
                    raise RuntimeError(f"{node.name} is not ready; see {node.kubelet.log}")
                await asyncio.sleep(0.1)

    async def is_ready(self, node: RealNode) -> bool:
        """Whether the API server takes the node for ready."""
        async with self.plane.api() as api:
            try:
                conditions = (await api.get(f"/api/v1/nodes/{node.name}"))["status"]["conditions"]
            except (ApiError, aiohttp.ClientError, KeyError):
                return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def close(self) -> None:
        """Ends all nodes and servers, and removes their files."""
        self.services.kill()
        self.wire.cut()
        cgroups.remove(f"{PREFIX}{self.wire.number}-")
        self.plane.close()


def missing_requirement() -> str | None:
    """Returns what real nodes on this machine lack; None: nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "real nodes need Linux and root"
    missing = [program for program in NEEDED if not shutil.which(program)]
    if not CNI.exists():
        missing.append(str(CNI))
    if missing:
        return f"real nodes need {', '.join(missing)}: apt-get install {PACKAGES}"
    try:
        run("unshare", "--mount", "--net", "--pid", "--fork", "true")
    except RuntimeError as failed:
        return f"real nodes need namespaces of their own: {failed}"
    return None if cgroups.writable() else "real nodes need cgroups of their own, and /sys/fs/cgroup is read-only"


def start(
    folder: Path,
    names: Sequence[str] = ("n1", "n2"),
    gpus: int = 2,
    settings: Settings | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> RealCluster:
    """Starts the cluster and waits until its nodes are ready; creates `folder`. Raises RuntimeError.

    `say` gets a line before each step.
    """
    say("start of etcd, API server, controller-manager and scheduler")
    folder.mkdir(mode=0o700, parents=True)
    wire = lay_wire(folder)
    cgroups.remove_stale(PREFIX)
    try:
        given = settings or Settings()
        wanted = replace(
            given,
            controllers=True,
            bind=EVERYWHERE,
            addresses=[wire.address],
            services=wire.services,
            # no kube-proxy translates addresses of services for the API server: it connects to the pods behind them
            apiserver_flags=[*given.apiserver_flags, "--enable-aggregator-routing=true"],
        )
        plane = cluster.start(folder / "plane", wanted)
    except BaseException:
        wire.cut()
        raise
    path = {"PYTHONPATH": str(images.SOURCE)}
    services = Server("services", _services_command(plane, wire), folder / "services.log", env=path)
    real = RealCluster(plane, wire, services, ())
    try:
        services.start()
        say(f"start of {len(names)} nodes, with containerd and kubelet each")
        for number, name in enumerate(images.ENTRYPOINTS):
            images.compose(_archive(folder, number), name)
        real.nodes = [_node(real, folder, name) for name in names]
        say("the nodes become ready")
        asyncio.run(real.ready())
        asyncio.run(_devices(real, gpus))
    except BaseException:
        real.close()
        raise
    return real


def _services_command(plane: ControlPlane, wire: Wire) -> Sequence[str | Path]:
    module = [sys.executable, "-m", "windlass.controlplane.services"]
    return [*module, plane.kubeconfig, wire.address, f"{wire.services}.1"]


def _node(real: RealCluster, folder: Path, name: str) -> RealNode:
    machine = boot(real.wire, folder, name)
    cgroups.make(cgroup_of(real.wire, machine))
    containerd = _containerd(machine, folder)
    kubelet = _kubelet(real, machine, folder)
    machine.servers += [kubelet, containerd]
    node = RealNode(name, machine, containerd, kubelet)
    containerd.start()
    _until_containerd(node)
    for number in range(len(images.ENTRYPOINTS)):
        node.ctr("images", "import", str(_archive(folder, number)))
    kubelet.start()
    return node


def _archive(folder: Path, number: int) -> Path:
    return folder / f"image-{number}.tar"


def _until_containerd(node: RealNode) -> None:
    give_up = time.monotonic() + READY_WITHIN
    while True:
        try:
            node.ctr("version")
        except RuntimeError:
            node.containerd.check_running()
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
        else:
            return


def _socket(machine: Machine) -> Path:
    return machine.disk / "containerd.sock"


def _containerd(machine: Machine, folder: Path) -> Server:
    spec, config, networks = (
        folder / f"{machine.name}-spec.json",
        folder / f"{machine.name}.toml",
        folder / f"{machine.name}-cni",
    )
    networks.mkdir()
    (networks / "10-pods.conflist").write_text(json.dumps(_network(machine)))
    spec.write_text(json.dumps(_base_spec(machine)))
    config.write_text(_CONTAINERD.format(disk=machine.disk, networks=networks, spec=spec, cni=CNI, image=IMAGE))
    path = f"{find('containerd-shim-runc-v2').parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    command = machine.inside([find("containerd"), "--config", config])
    return Server("containerd", command, folder / f"{machine.name}-containerd.log", env={"PATH": path})


def _base_spec(machine: Machine) -> dict[str, object]:
    """Returns containerd's base specification with this machine's programs mounted."""
    spec: dict[str, Any] = json.loads(machine.run(find("ctr"), "oci", "spec"))
    spec["mounts"] += [
        {"source": str(path), "destination": str(inside), "type": "bind", "options": ["rbind", "ro"]}
        for inside, path in ({path: path for path in images.HOST} | images.ALSO).items()
    ]
    return spec


def _network(machine: Machine) -> dict[str, object]:
    addresses = {"type": "host-local", "dataDir": f"{machine.disk}/addresses", "ranges": [[{"subnet": machine.pods}]]}
    bridge = {"type": "bridge", "bridge": "pods", "isDefaultGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}


_CONTAINERD = """version = 3
root = '{disk}/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.tracing']
[grpc]
address = '{disk}/containerd.sock'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{image}'
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{cni}']
conf_dir = '{networks}'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
base_runtime_spec = '{spec}'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _kubelet(real: RealCluster, machine: Machine, folder: Path) -> Server:
    plane, name = real.plane, machine.name
    pair = plane.authority.server(folder, f"{name}-serving", [machine.address, name])
    client = plane.authority.client(folder, f"system:node:{name}", ["system:nodes"])
    trusted = plane.authority.pair.certificate
    user = kubeconfig.write(folder / f"{name}.kubeconfig", kubeconfig.Access(real.inner_url, trusted, client))
    config = folder / f"{name}-kubelet.yaml"
    config.write_text(
        yaml.safe_dump(
            _KUBELET
            | {
                "address": machine.address,
                "authentication": {
                    "anonymous": {"enabled": False},
                    "webhook": {"enabled": False},
                    "x509": {"clientCAFile": str(trusted)},
                },
                "tlsCertFile": str(pair.certificate),
                "tlsPrivateKeyFile": str(pair.key),
                "containerRuntimeEndpoint": f"unix://{_socket(machine)}",
                "cgroupRoot": f"/{cgroup_of(real.wire, machine)}",
                "clusterDNS": [real.wire.address],
                "volumePluginDir": f"{machine.disk}/volume-plugins",
            }
        )
    )
    flags = [f"--config={config}", f"--kubeconfig={user}", f"--hostname-override={name}"]
    flags += [f"--node-ip={machine.address}", f"--root-dir={machine.disk}/kubelet", f"--cert-dir={machine.disk}"]
    command = machine.inside([find("kubelet"), *flags])
    return Server("kubelet", command, folder / f"{name}-kubelet.log")


_KUBELET: dict[str, object] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "clusterDomain": "cluster.local",
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "failCgroupV1": False,
    "failSwapOn": False,
    "healthzPort": 0,
    "imageGCHighThresholdPercent": 100,
    "imageMinimumGCAge": "240h",
    "makeIPTablesUtilChains": False,
    "nodeLeaseDurationSeconds": 8,
    "nodeStatusUpdateFrequency": "5s",
    "podLogsDir": "/var/log/pods",
    "readOnlyPort": 0,
    "resolvConf": "",
    "serializeImagePulls": False,
}


def cgroup_of(wire: Wire, machine: Machine) -> str:
    """The name of the cgroup that holds the pods of a machine."""
    return f"{PREFIX}{wire.number}-{machine.name}"


async def _devices(real: RealCluster, gpus: int) -> None:
    """Announces devices in the nodes' status: the kubelet keeps resources that it does not know."""
    status = {"capacity": {"nvidia.com/gpu": str(gpus)}, "allocatable": {"nvidia.com/gpu": str(gpus)}}
    async with real.plane.api() as api:
        for node in real.nodes:
            await api.patch(f"/api/v1/nodes/{node.name}/status", {"status": status})


def _whole(name: str) -> str:
    """Returns the full image name of containerd: docker.io/library/pytorch:1 for "pytorch:1"."""
    if ":" not in name.rpartition("/")[2] and "@" not in name:
        name += ":latest"
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"
