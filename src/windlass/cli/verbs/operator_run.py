"""`windlass operator run`: runs one replica of the operator. Also the options that all `operator` verbs share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from windlass.cli.dashboard_options import (
    DashboardActionsOption,
    DashboardOriginsOption,
    DashboardPortOption,
    DashboardProxyOption,
    dashboard_options,
)
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option
from windlass.jobs.kubernetes.operator_names import NAMESPACE, OPERATOR

if TYPE_CHECKING:
    from windlass.backends.kubernetes.client.access import Access
    from windlass.backends.kubernetes.settings import BackendSettings
    from windlass.hardware.network.request import NetworkRequest
    from windlass.jobs.kubernetes.foreign_schedulers import SchedulerRules
    from windlass.jobs.kubernetes.settings import Settings
    from windlass.server.operator.history.writer import RetentionLimits


class ManagedNamespaces(StrEnum):
    """Namespaces in which jobs run."""

    ALL = "all"
    LABELLED = "labelled"


class MetricsLevel(StrEnum):
    """Finest level of the metrics for Prometheus."""

    JOB = "job"
    RANK = "rank"


ContextOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--on", "--context", metavar="CONTEXT", help="A context of the kubeconfig; default: the current one."),
]
KubeconfigOption: TypeAlias = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config.")
]
NamespaceOption: TypeAlias = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace of the operator itself. Jobs may be in any other.")
]
_Lease: TypeAlias = Annotated[
    str, typer.Option("--lease", metavar="NAME", help="The Lease in that namespace by which a leader is elected.")
]
_LeaseSeconds: TypeAlias = Annotated[
    float, typer.Option("--lease-seconds", min=2, help="Without a sign of the leader for so long, another one leads.")
]
_Address: TypeAlias = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="URL",
        help="Loopback URL at which users of this machine may ask this replica; written to the Lease.",
    ),
]
_AtOnce: TypeAlias = Annotated[
    int, typer.Option("--at-once", min=1, max=512, help="Maximum concurrent creations, bindings and deletions of pods.")
]
_ImagePullTimeout: TypeAlias = Annotated[
    str,
    typer.Option("--image-pull-timeout", metavar="DURATION", help="How long the pull of an image may keep failing."),
]
_Domain: TypeAlias = Annotated[
    str, typer.Option("--cluster-domain", help="Domain of service names given to pods, such as cluster.local.")
]
_Waiter: TypeAlias = Annotated[
    str,
    typer.Option(
        "--waiter-image", help="Image of the init container in which workers of a PyTorchJob wait for the master."
    ),
]
_Kubectl: TypeAlias = Annotated[
    str, typer.Option("--kubectl-image", help="Image that provides kubectl to the launcher of an MPIJob v1.")
]
_AgentImage: TypeAlias = Annotated[
    str,
    typer.Option(
        "--agent-image",
        help="Image that provides the agent to pods; its entry point is windlass.  [default: the operator's own]",
    ),
]
_AgentsAddress: TypeAlias = Annotated[
    str,
    typer.Option(
        "--agents-address",
        metavar="HOST:PORT",
        help="Address at which agents in pods reach the operator; without it they coordinate among themselves.",
    ),
]
_AgentsPort: TypeAlias = Annotated[
    int, typer.Option("--agents-port", help="Port on which the leader serves agents; 0: any free port.")
]


def _left_kinds(text: str) -> frozenset[str]:
    """Returns the kinds of a list with commas. Raises UsageError for an unknown one."""
    from windlass.jobs.kubernetes.kinds.registry import KINDS  # noqa: PLC0415 - verbs start light

    written, known = {each.strip() for each in text.split(",") if each.strip()}, {kind.name for kind in KINDS}
    if unknown := sorted(written - known):
        raise UsageError(f"--leave-kinds does not know {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return frozenset(written)


def _check_kinds(text: str) -> str:
    """Returns the option as it is, before the kubeconfig is read. Raises UsageError."""
    _left_kinds(text)
    return text


_LeaveKinds: TypeAlias = Annotated[
    str,
    typer.Option(
        "--leave-kinds",
        metavar="KIND,…",
        help="Kinds that another operator serves, such as MPIJob, besides those of operators that are found.",
        callback=_check_kinds,
    ),
]
_AgentsAnySource: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--agents-any-source",
        help="Accept agents from other addresses than their pods': behind address translation, a proxy or a mesh.",
    ),
]
_PodGroups: TypeAlias = Annotated[
    bool, typer.Option("--pod-groups", help="Create a PodGroup for each job, for tools that read PodGroups.")
]
ForeignSchedulersOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--foreign-schedulers",
        metavar="NAME=ACTION,…",
        help="What becomes of jobs whose templates name another scheduler: adopt, respect (respect:volcano, "
        "respect:coscheduling, respect:native and respect:none name the PodGroups) or refuse; * for all other names.  "
        "[default: default-scheduler=adopt,*=respect]",
    ),
]
NetworkOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--network",
        metavar="PROFILE,NAME=VALUE,…;…",
        help="Parameters of network profiles for jobs that set none, such as roce-sriov,networks=rail0+rail1; "
        "semicolons between profiles.",
    ),
]
ManagedNamespacesOption: TypeAlias = Annotated[
    ManagedNamespaces,
    typer.Option(
        "--managed-namespaces",
        help='Where jobs run: in all but those labelled windlass.dev/managed: "false", or in those with "true".',
    ),
]
_Port: TypeAlias = Annotated[int, typer.Option("--metrics-port", help="Port of probes and metrics; 0: any free port.")]
_QueriesPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--queries-port",
        help="Port of queries, which the API server reaches with TLS; 0: any free port.  [default: none]",
    ),
]
_CertificateFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert-file", metavar="FILE", help="Certificate of that port.  [default: made, and kept in a Secret]"
    ),
]
_KeyFile: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-private-key-file", metavar="FILE", help="Private key of that certificate.")
]
_ProtectMetrics: TypeAlias = Annotated[
    bool, typer.Option("--protect-metrics", help="Serve metrics on the port of queries only, by RBAC.")
]
MetricsLevelOption: TypeAlias = Annotated[
    MetricsLevel,
    typer.Option(
        "--metrics-level",
        help="Finest level of the metrics for Prometheus; rank adds up to 8 series for each rank.",
    ),
]
_Host: TypeAlias = Annotated[str, typer.Option("--metrics-host", help="The address to listen on.")]
_History: TypeAlias = Annotated[
    str,
    typer.Option(
        "--history",
        metavar="URL",
        help="Database of ended jobs: sqlite:///FILE or postgresql://HOST/DATABASE.  [default: a file in your home]",
    ),
]
DiagnosesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--diagnoses-at-once",
        min=0,
        max=16,
        help="Failed attempts that are diagnosed at the same time, each with up to 384 MiB; 0: none is diagnosed.",
    ),
]
CordonOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--cordon-bad-nodes",
        min=0,
        metavar="N",
        help="Cordon nodes proven bad by diagnoses and node conditions, or jobs of two namespaces, at most N; 0: none. "
        "Only nodes of a cluster: those of this machine are never cordoned, and `restart: {verdict: act}` avoids them.",
    ),
]
CullOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--cull-notebooks",
        metavar="DURATION",
        help="Stop Notebook objects whose kernels were idle for so long, such as 24h; by default never.",
    ),
]
_Keep: TypeAlias = Annotated[str, typer.Option("--keep", metavar="DURATION", help="How long ended jobs are kept.")]
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - probes and Prometheus connect from outside the pod


def run(
    namespace: NamespaceOption = NAMESPACE,
    lease: _Lease = OPERATOR,
    lease_seconds: _LeaseSeconds = 15,
    address: _Address = "",
    at_once: _AtOnce = 64,
    image_pull_timeout: _ImagePullTimeout = "5m",
    cluster_domain: _Domain = "",
    waiter_image: _Waiter = "alpine:3.10",
    kubectl_image: _Kubectl = "kubeflow/kubectl-delivery:latest",
    agent_image: _AgentImage = "",
    agents_address: _AgentsAddress = "",
    agents_port: _AgentsPort = 8081,
    agents_any_source: _AgentsAnySource = False,
    pod_groups: _PodGroups = False,
    leave_kinds: _LeaveKinds = "",
    managed_namespaces: ManagedNamespacesOption = ManagedNamespaces.ALL,
    foreign_schedulers: ForeignSchedulersOption = "",
    network: NetworkOption = "",
    metrics_port: _Port = 8080,
    metrics_host: _Host = _EVERYWHERE,
    queries_port: _QueriesPort = None,
    tls_cert_file: _CertificateFile = None,
    tls_private_key_file: _KeyFile = None,
    dashboard_port: DashboardPortOption = None,
    dashboard_actions: DashboardActionsOption = False,
    dashboard_origins: DashboardOriginsOption = "",
    dashboard_proxy: DashboardProxyOption = "",
    protect_metrics: _ProtectMetrics = False,
    metrics_level: MetricsLevelOption = MetricsLevel.JOB,
    history: _History = "",
    diagnoses_at_once: DiagnosesOption = 1,
    cordon_bad_nodes: CordonOption = 0,
    cull_notebooks: CullOption = "",
    keep: _Keep = "14d",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Run until SIGTERM or Ctrl-C, as a standby until elected. In a pod it has the rights of the pod's account."""
    kinds = _pod_settings(cluster_domain, waiter_image, kubectl_image, agent_image)
    kinds = replace(kinds, agent_endpoint=_host_and_port(agents_address), pod_groups=pod_groups)
    kinds = replace(kinds, foreign_schedulers=scheduler_rules(foreign_schedulers), networks=network_defaults(network))
    access = access_to(context, kubeconfig)
    from windlass.server.operator.process import OperatorOptions, run_operator  # noqa: PLC0415 - after access_to's check

    dashboard = dashboard_options(dashboard_port, dashboard_origins, dashboard_proxy, actions=dashboard_actions)
    options = OperatorOptions(
        access,
        history or _history_here(),
        namespace=namespace,
        lease_name=lease,
        lease=lease_seconds,
        address=_checked_address(address, metrics_host),
        host=metrics_host,
        port=metrics_port,
        queries_port=queries_port,
        certificate=_certificate(tls_cert_file, tls_private_key_file),
        dashboard=dashboard,
        protect_metrics=protect_metrics,
        rank_metrics=metrics_level is MetricsLevel.RANK,
        diagnoses_at_once=diagnoses_at_once,
        cordon_limit=cordon_bad_nodes,
        cull_notebooks_ms=idle_limit(cull_notebooks),
        agents_port=agents_port,
        agents_any_source=agents_any_source,
        retention=_retention(keep),
        backend=replace(_backend_settings(at_once, image_pull_timeout, leave_kinds, managed_namespaces), kinds=kinds),
    )
    return _run_until_signal(run_operator(options, lambda text: print(text, flush=True)))


def idle_limit(text: str) -> int:
    """Returns the value of --cull-notebooks in milliseconds, 0 without one. Raises UsageError."""
    return parse_duration_option("--cull-notebooks", text) if text else 0


def _run_until_signal(replica: Coroutine[Any, Any, None]) -> int:
    asyncio.run(replica)
    return ExitCode.OK


def _backend_settings(
    at_once: int, image_pull_timeout: str, leave_kinds: str, namespaces: ManagedNamespaces
) -> BackendSettings:
    from windlass.backends.kubernetes.settings import BackendSettings  # noqa: PLC0415 - keeps the start of other verbs short

    timeout = parse_duration_option("--image-pull-timeout", image_pull_timeout)
    return BackendSettings(
        image_pull_timeout=timeout,
        max_requests=at_once,
        left_kinds=_left_kinds(leave_kinds),
        only_labelled=namespaces is ManagedNamespaces.LABELLED,
    )


def _pod_settings(domain: str, waiter_image: str, kubectl_image: str, agent_image: str) -> Settings:
    from windlass.jobs.kubernetes.settings import Settings  # noqa: PLC0415 - verbs start light

    return Settings(
        cluster_domain=domain, waiter_image=waiter_image, kubectl_image=kubectl_image, agent_image=agent_image
    )


def _certificate(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file belong together")
    return None if certificate is None or key is None else (certificate, key)


def _retention(keep: str) -> RetentionLimits:
    from windlass.server.operator.history.writer import RetentionLimits  # noqa: PLC0415 - after access_to's check

    return RetentionLimits(keep=parse_duration_option("--keep", keep))


def _checked_address(address: str, host: str) -> str:
    """The address. Raises UsageError if others than this machine's users could ask a replica without authentication."""
    if address and host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError("--address answers queries of anybody: it needs --metrics-host 127.0.0.1")
    return address


def scheduler_rules(text: str) -> SchedulerRules:
    """Returns the rules of the option --foreign-schedulers. Raises UsageError."""
    from windlass.jobs.kubernetes.foreign_schedulers import parse_scheduler_rules  # noqa: PLC0415 - verbs start light

    try:
        return parse_scheduler_rules(text)
    except ValueError as error:
        raise UsageError(f"--foreign-schedulers {error}") from None


def network_defaults(text: str) -> dict[str, NetworkRequest]:
    """Returns the parameters of the option --network by profile. Raises UsageError."""
    from windlass.hardware.network.request import parse_defaults  # noqa: PLC0415 - verbs start light

    try:
        return parse_defaults(text)
    except ValueError as error:
        raise UsageError(f"--network {error}") from None


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--agents-address expects HOST:PORT, not {text!r}")
    return text


def _history_here() -> str:
    """Returns the URL of the default database, a file in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return f"sqlite:///{state}/windlass/operator-history.sqlite"


def access_to(context: str | None, kubeconfig: str | None) -> Access:
    """Returns access to the selected cluster. Raises UsageError if its libraries are missing, and AccessError."""
    try:
        import_module("windlass.backends.kubernetes.client.connection")
    except ModuleNotFoundError as missing:
        raise UsageError(f"{missing.name} is not installed\npip install 'windlass-train[kubernetes]'") from None
    from windlass.backends.kubernetes.client.access import find, from_kubeconfig  # noqa: PLC0415 - keeps the start of other verbs short

    return from_kubeconfig(kubeconfig, context) if kubeconfig else find(context)
