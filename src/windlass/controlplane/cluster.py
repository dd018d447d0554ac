"""A control plane: etcd, an API server, and if wanted the controller-manager and the scheduler that come with it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from . import kubeconfig
from .api import Api, ApiError
from .build import find
from .certificates import Authority, Pair, make_authority, make_token_key
from .kubeconfig import Access
from .processes import Server, free_port

READY_WITHIN = 100.0
"""Seconds that a server may take to be ready; it takes three where nothing else runs."""
RESTARTED_AFTER = 1.0
"""Seconds within which a server that has ended by itself is started again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a control plane. Times are seconds."""

    controllers: bool = False
    """And the default scheduler, for pods that name no other."""
    fsync: bool = False
    """etcd waits for the disk, as in earnest: for benchmarks. Without it also survives SIGKILL, only no power cut."""
    bind: str = "127.0.0.1"
    addresses: Sequence[str] = ()
    """By which the API server is also called, besides localhost."""
    node_grace: int = 8
    """After which the controller-manager takes a node that does not renew its lease for unreachable."""
    services: str = "10.96.0"
    """The first three numbers of the addresses that services get; the API server's own ends with 1."""
    eviction_after: int = 2
    """Default toleration time of pods for an unreachable node."""
    apiserver_flags: Sequence[str] = ()
    controller_flags: Sequence[str] = ()
    scheduler_flags: Sequence[str] = ()


@dataclass
class ControlPlane:
    """A running control plane. `kubeconfig` is the administrator's; `close` ends everything and empties the folder."""

    folder: Path
    settings: Settings
    authority: Authority
    tokens: Pair
    url: str
    admin: Access
    kubeconfig: Path
    etcd: Server
    apiserver: Server
    controllers: Server | None = None
    scheduler: Server | None = None
    took: dict[str, float] = field(default_factory=dict)
    """Seconds until each server was ready."""

    def api(self) -> Api:
        """A client with all rights: `async with plane.api() as api`."""
        return Api(self.admin)

    def user(self, name: str, groups: Sequence[str] = (), url: str | None = None) -> Path:
        """A kubeconfig for anybody, known by a client certificate. RBAC says what they may; `url` names a proxy."""
        pair = self.authority.client(self.folder, name, groups)
        return self._kubeconfig(name, Access(url or self.url, self.authority.pair.certificate, pair))

    async def service_account(self, namespace: str, name: str, url: str | None = None) -> Path:
        """A kubeconfig with a token of a service account that exists, as its pods get one."""
        access = await account_access(self.admin, namespace, name)
        return self._kubeconfig(f"{namespace}-{name}", replace(access, url=url or self.url))

    def _kubeconfig(self, name: str, access: Access) -> Path:
        """Each in a file of its own: the same user may come by several ways."""
        port = access.url.rpartition(":")[2]
        return kubeconfig.write(self.folder / f"{name.replace(':', '-')}-{port}.kubeconfig", access)

    async def ready(self) -> None:
        """Wait until the API server, and the controller-manager's service accounts, are there. Raises RuntimeError."""
        servers = [self.etcd, self.apiserver]
        await _until_ready(self.admin, "/readyz", servers)
        await _until_ready(self.admin, "/api/v1/namespaces/default", servers)  # asks etcd, readyz may remember it
        if self.controllers and self.controllers.process:
            path = "/api/v1/namespaces/default/serviceaccounts/default"
            await _until_ready(self.admin, path, [self.etcd, self.apiserver, self.controllers])

    async def restart(self, *servers: Server) -> None:
        """SIGKILL, then the same again on the same port and data, and wait until all is ready."""
        for server in servers:
            server.kill()
        for server in servers:
            server.start()
        await self.ready()

    @asynccontextmanager
    async def kept_running(self, *others: Server) -> AsyncIterator[None]:
        """Starts each server again that ends by itself, as a kubelet does: a controller-manager without API server."""

        async def keep() -> None:
            while True:
                for server in (self.etcd, self.apiserver, self.controllers, self.scheduler, *others):
                    if server:
                        server.restart_if_ended()
                await asyncio.sleep(RESTARTED_AFTER)

        task = asyncio.create_task(keep())
        try:
            yield
        finally:
            task.cancel()

    @asynccontextmanager
    async def etcd_full(self) -> AsyncIterator[None]:
        """Raises etcd's alarm for a full disk: every write is refused, and reads go on."""
        await self._alarm("ACTIVATE")
        try:
            yield
        finally:
            await self._alarm("DEACTIVATE")

    async def _alarm(self, action: str) -> None:
        flags = (str(each).partition("=") for each in self.apiserver.command)
        url = next(value for name, _, value in flags if name == "--etcd-servers")
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{url}/v3/maintenance/alarm", json={"action": action, "alarm": "NOSPACE"})
            answer.raise_for_status()

    def close(self) -> None:
        """Kills all servers and removes their files."""
        for server in (self.scheduler, self.controllers, self.apiserver, self.etcd):
            if server:
                server.kill()  # its data are not needed any more
        shutil.rmtree(self.folder)


def start(folder: Path, settings: Settings | None = None) -> ControlPlane:
    """Start the servers and wait for them. Not inside of a running event loop: see `launch`."""
    plane = prepare(folder, settings or Settings())
    try:
        asyncio.run(launch(plane))
    except BaseException:
        plane.close()
        raise
    return plane


def prepare(folder: Path, settings: Settings) -> ControlPlane:
    """Everything but the processes: keys, ports, command lines. The folder is made, and must be new."""
    folder.mkdir(mode=0o700, parents=True)
    authority, tokens = make_authority(folder), make_token_key(folder)
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    admin = Access(url, authority.pair.certificate, authority.client(folder, "admin", ["system:masters"]))
    etcd, etcd_url = _etcd(folder, settings)
    plane = ControlPlane(
        folder=folder,
        settings=settings,
        authority=authority,
        tokens=tokens,
        url=url,
        admin=admin,
        kubeconfig=kubeconfig.write(folder / "admin.kubeconfig", admin),
        etcd=etcd,
        apiserver=_apiserver(folder, settings, authority, tokens, etcd_url, port),
    )
    if settings.controllers:
        plane.controllers, plane.scheduler = _controllers(plane), _scheduler(plane)
    return plane


async def launch(plane: ControlPlane) -> None:
    """Start what `prepare` prepared, and wait until it is ready."""
    began = time.monotonic()
    plane.etcd.start()
    plane.apiserver.start()  # it waits for etcd by itself
    await _until_ready(plane.admin, "/readyz", [plane.etcd, plane.apiserver])
    await _until_ready(plane.admin, "/api/v1/namespaces/default", [plane.etcd, plane.apiserver])
    if not plane.controllers:
        await _create_service_accounts(plane.admin)
    plane.took["API server"] = time.monotonic() - began
    if plane.controllers and plane.scheduler:
        plane.controllers.start()
        plane.scheduler.start()
        await plane.ready()
        plane.took["controller-manager"] = time.monotonic() - began - plane.took["API server"]


async def _create_service_accounts(admin: Access) -> None:
    """The account that every pod uses unless it names another one; kube-controller-manager creates it elsewhere."""
    async with Api(admin) as api:
        for namespace in ("default", "kube-system"):
            await _until_ready(admin, f"/api/v1/namespaces/{namespace}", [])
            await add_default_account(api, namespace)


async def account_access(admin: Access, namespace: str, name: str, seconds: int = 3600) -> Access:
    """Access by a token of a service account, which is valid for these seconds. Raises ApiError."""
    spec = {"expirationSeconds": seconds}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    async with Api(admin) as api:
        answer = await api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
    return Access(admin.url, admin.authority, token=answer["status"]["token"])


async def add_default_account(api: Api, namespace: str) -> None:
    """Let pods be created in a namespace of a cluster without controllers."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)


async def _until_ready(admin: Access, path: str, servers: Sequence[Server]) -> None:
    give_up = time.monotonic() + READY_WITHIN
    async with Api(admin) as api:
        while True:
            try:
                return await _answer(api, path)
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as failed:
                for server in servers:
                    server.check_running()
                if time.monotonic() > give_up:
                    raise RuntimeError(f"{path} is not ready after {READY_WITHIN:.0f} s: {failed!r}") from failed
            await asyncio.sleep(0.05)


async def _answer(api: Api, path: str) -> None:
    async with asyncio.timeout(5):
        await api.get(path)


def _flags(**values: Any) -> list[str]:
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    return [f"--{name.replace('_', '-')}={text}" for name, text in texts.items()]


def _etcd(folder: Path, settings: Settings) -> tuple[Server, str]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = _flags(
        data_dir=folder / "etcd",
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        log_level="warn",
        unsafe_no_fsync=not settings.fsync,
    )
    return Server("etcd", [find("etcd"), *flags], folder / "etcd.log"), client


def _apiserver(
    folder: Path, settings: Settings, authority: Authority, tokens: Pair, etcd_url: str, port: int
) -> Server:
    names = ["localhost", "127.0.0.1", f"{settings.services}.1", "kubernetes.default.svc", *settings.addresses]
    pair = authority.server(folder, "apiserver", names)
    proxies = make_authority(folder, "front-proxy-ca")
    proxy = proxies.client(folder, "front-proxy-client", [])
    to_kubelets = authority.client(folder, "kube-apiserver", ["system:masters"])
    flags = _flags(
        etcd_servers=etcd_url,
        bind_address=settings.bind,
        advertise_address="127.0.0.1",
        endpoint_reconciler_type="none",
        secure_port=port,
        tls_cert_file=pair.certificate,
        tls_private_key_file=pair.key,
        client_ca_file=authority.pair.certificate,
        kubelet_certificate_authority=authority.pair.certificate,
        kubelet_client_certificate=to_kubelets.certificate,
        kubelet_client_key=to_kubelets.key,
        requestheader_client_ca_file=proxies.pair.certificate,
        requestheader_allowed_names="front-proxy-client",
        requestheader_username_headers="X-Remote-User",
        requestheader_group_headers="X-Remote-Group",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        proxy_client_cert_file=proxy.certificate,
        proxy_client_key_file=proxy.key,
        anonymous_auth=False,
        authorization_mode="Node,RBAC",
        service_account_issuer="https://kubernetes.default.svc",
        service_account_signing_key_file=tokens.key,
        service_account_key_file=tokens.certificate,
        service_cluster_ip_range=f"{settings.services}.0/24",
        kubelet_preferred_address_types="InternalIP",
        default_unreachable_toleration_seconds=settings.eviction_after,
        default_not_ready_toleration_seconds=settings.eviction_after,
        # The gangs of Kubernetes itself (PodGroups), which were not on by default yet.
        feature_gates="GenericWorkload=true",
        runtime_config="scheduling.k8s.io/v1alpha2=true",
        allow_privileged=True,
        # Checks permissions of those who make objects that block the deletion of their owner.
        enable_admission_plugins="OwnerReferencesPermissionEnforcement",
        profiling=False,
        enable_priority_and_fairness=False,  # a tenth of the server's CPU time
    )
    command: list[str | Path] = [find("kube-apiserver"), *flags, *settings.apiserver_flags]
    return Server("kube-apiserver", command, folder / "kube-apiserver.log", env={"GOGC": "400"})


def _controllers(plane: ControlPlane) -> Server:
    not_here = ("node-ipam", "node-route", "cloud-node-lifecycle", "service-lb", "bootstrap-signer", "token-cleaner")
    user = plane.user("system:kube-controller-manager")
    flags = _flags(
        kubeconfig=user,
        authentication_kubeconfig=user,
        authorization_kubeconfig=user,
        leader_elect=False,
        bind_address="127.0.0.1",
        secure_port=free_port(),
        cert_dir=plane.folder,
        service_account_private_key_file=plane.tokens.key,
        root_ca_file=plane.authority.pair.certificate,
        use_service_account_credentials=True,
        controllers=",".join(["*", *(f"-{name}-controller" for name in not_here)]),
        node_monitor_period="1s",
        node_monitor_grace_period=f"{plane.settings.node_grace}s",
        node_startup_grace_period=f"{plane.settings.node_grace}s",
        kube_api_qps=1000,
        kube_api_burst=2000,
    )
    command: list[str | Path] = [find("kube-controller-manager"), *flags, *plane.settings.controller_flags]
    return Server("kube-controller-manager", command, plane.folder / "kube-controller-manager.log")


def _scheduler(plane: ControlPlane) -> Server:
    user = plane.user("system:kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(user), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
    }
    file = plane.folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    flags = _flags(
        config=file,
        authentication_kubeconfig=user,
        authorization_kubeconfig=user,
        bind_address="127.0.0.1",
        secure_port=free_port(),
        cert_dir=plane.folder,
    )
    command: list[str | Path] = [find("kube-scheduler"), *flags, *plane.settings.scheduler_flags]
    return Server("kube-scheduler", command, plane.folder / "kube-scheduler.log")
