"""`windlass operator`: be the operator, bring it into a cluster, look after it, take it away again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.output import Column, Format, FormatOption, Listing, show
from windlass.cli.place import NoColorOption, paints

if TYPE_CHECKING:
    from windlass.deploy.operator import Setup
    from windlass.worlds.kubernetes.client.access import Access
    from windlass.worlds.kubernetes.client.connection import Connection

T = TypeVar("T")
operator = typer.Typer(
    help="Be the operator; or bring it into a cluster, look after it, take it away again.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ContextOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--on", "--context", metavar="CONTEXT", help="A context of the kubeconfig; else the current one."),
]
KubeconfigOption: TypeAlias = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, else ~/.kube/config.")
]
NamespaceOption: TypeAlias = Annotated[
    str, typer.Option("-n", "--namespace", help="Where the operator itself lives. Jobs live anywhere.")
]
_NAMESPACE = "windlass-system"
_STYLES = {"ok": "green", "odd": "yellow", "wrong": "red"}
_CHECKED = Listing(
    (
        Column("", lambda row: row["verdict"], style=lambda row: _STYLES[row["verdict"]]),
        Column("ABOUT", lambda row: row["about"]),
        Column("FOUND", lambda row: row["says"]),
        Column("WHAT TO DO", lambda row: row["fix"]),
    ),
    key="about",
    empty="nothing was looked at",
)


@operator.command("run", short_help="Be one replica of the operator, until it is told to end")
def run(
    namespace: NamespaceOption = _NAMESPACE,
    lease: Annotated[
        str,
        typer.Option("--lease", metavar="NAME", help="The Lease in that namespace that makes a replica the leader."),
    ] = "windlass-operator",
    lease_seconds: Annotated[
        float, typer.Option("--lease-seconds", min=2, help="After so long without its leader, another one leads.")
    ] = 15,
    address: Annotated[
        str, typer.Option("--address", metavar="URL", help="Where others reach this replica; it stands in the Lease.")
    ] = "",
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=512, help="Pods that are made, bound or deleted at the same time.")
    ] = 64,
    image_patience: Annotated[
        str, typer.Option("--image-patience", metavar="DURATION", help="How long an image may fail to be pulled.")
    ] = "5m",
    cluster_domain: Annotated[
        str, typer.Option("--cluster-domain", help="Ends the names of services in what pods are told: cluster.local.")
    ] = "",
    waiter_image: Annotated[
        str, typer.Option("--waiter-image", help="With which a PyTorchJob's workers wait for their master.")
    ] = "alpine:3.10",
    kubectl_image: Annotated[
        str, typer.Option("--kubectl-image", help="Brings a kubectl to the launcher of an MPIJob v1.")
    ] = "mpioperator/kubectl-delivery:latest",
    pod_groups: Annotated[
        bool, typer.Option("--pod-groups", help="Make a PodGroup beside each job, for tools that look at those.")
    ] = False,
    metrics_port: Annotated[
        int, typer.Option("--metrics-port", help="For probes, metrics and questions; 0 is any that is free.")
    ] = 8080,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="The address to listen on.")] = "0.0.0.0",  # noqa: S104 - probes come from outside of the pod
    history: Annotated[
        str,
        typer.Option(
            "--history",
            metavar="URL",
            help="Where what has ended is kept: sqlite:///FILE or postgresql://HOST/DATABASE.",
        ),
    ] = "",
    keep: Annotated[str, typer.Option("--keep", metavar="DURATION", help="How long it is kept.")] = "14d",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Follow until elected, then decide and carry out, until SIGTERM or Ctrl-C.

    Inside of a cluster it uses the account of its pod. It keeps nothing but what is in the cluster's objects.
    """
    from windlass.cli.given import duration  # noqa: PLC0415 - verbs start light
    from windlass.jobs.kubernetes.settings import Settings  # noqa: PLC0415
    from windlass.worlds.kubernetes.settings import WorldSettings  # noqa: PLC0415

    kinds = Settings(
        cluster_domain=cluster_domain, waiter_image=waiter_image, kubectl_image=kubectl_image, pod_groups=pod_groups
    )
    world = WorldSettings(kinds, image_patience=duration("--image-patience", image_patience), at_once=at_once)
    access = _access(context, kubeconfig)
    from windlass.server.operator.history import Keeping  # noqa: PLC0415
    from windlass.server.operator.running import Replica, serve  # noqa: PLC0415 - after a missing extra was told

    replica = Replica(
        access,
        history or _history_here(),
        namespace=namespace,
        lease_name=lease,
        lease=lease_seconds,
        address=address,
        host=metrics_host,
        port=metrics_port,
        keeping=Keeping(keep=duration("--keep", keep)),
        world=world,
    )
    asyncio.run(serve(replica, lambda text: print(text, flush=True)))
    return ExitCode.OK


def _history_here() -> str:
    """A file of the user's own."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return f"sqlite:///{state}/windlass/operator-history.sqlite"


@operator.command("install", short_help="Apply everything that the operator needs, and wait until it is ready")
def install(
    image: Annotated[
        str, typer.Option("--image", help="The operator's image, made with deploy/Dockerfile; else windlass:VERSION.")
    ] = "",
    namespace: NamespaceOption = _NAMESPACE,
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="One leads, the others wait.")] = 2,
    without_crds: Annotated[
        bool, typer.Option("--without-crds", help="Leave out the kinds of others: Kubeflow's jobs and trainer.")
    ] = False,
    pod_groups: Annotated[
        bool, typer.Option("--pod-groups", help="Bring PodGroup as well, for a cluster that lacks it.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace definitions of kinds that somebody else has brought.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    render: Annotated[bool, typer.Option("--render", help="Only print everything as YAML; ask no cluster.")] = False,
    wait: Annotated[
        int, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait for the replicas; 0: not at all.")
    ] = 120,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Apply the kinds, the permissions and the operator, server-side; whatever is there already is brought up to date.

    Run it again after an upgrade of Windlass. Definitions that somebody else has brought are left as they are.
    """
    from windlass.deploy.crds import DEFAULT, OWN, POD_GROUPS  # noqa: PLC0415 - verbs start light
    from windlass.deploy.installation import IMAGE, installation  # noqa: PLC0415
    from windlass.deploy.operator import Setup  # noqa: PLC0415
    from windlass.jobs.kubernetes.manifest_file import as_yaml  # noqa: PLC0415

    setup = Setup(image or IMAGE, namespace, replicas)
    groups = ((OWN,) if without_crds else DEFAULT) + ((POD_GROUPS,) if pod_groups else ())
    objects = installation(setup, groups)
    if render:
        print(as_yaml(objects), end="")
        return ExitCode.OK

    async def story(connection: Connection) -> None:
        from windlass.deploy.install.applying import apply  # noqa: PLC0415
        from windlass.deploy.install.waiting import until_ready  # noqa: PLC0415

        async for applied in apply(connection, objects, dry_run=dry_run, take_over=take_over):
            print(f"{applied.change:<13} {applied.name}", flush=True)
        if wait and not dry_run:
            print(f"waiting for {replicas} of {setup.image} …", file=sys.stderr)
            await until_ready(connection, namespace, wait)

    _with(story, context, kubeconfig)
    if not dry_run:
        print(f"Windlass is installed in {namespace}; windlass operator check -n {namespace} looks after it")
    return ExitCode.OK


@operator.command("uninstall", short_help="Take the operator away; jobs stay unless they are to go")
def uninstall(
    namespace: NamespaceOption = _NAMESPACE,
    delete_jobs: Annotated[
        bool, typer.Option("--delete-jobs", help="Delete the kinds too, and with them every job and its pods.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Delete the operator, its permissions and its namespace, if that is of its own making.

    Jobs, queues and the definitions of their kinds stay unless --delete-jobs; pods that run go on running, and nobody
    looks after them until an operator is there again.
    """
    from windlass.deploy.installation import IMAGE  # noqa: PLC0415
    from windlass.deploy.operator import Setup  # noqa: PLC0415

    async def story(connection: Connection) -> None:
        from windlass.deploy.install.removing import jobs_there  # noqa: PLC0415

        there = ", ".join(f"{count} {kind}" for kind, count in (await jobs_there(connection)).items()) or "no jobs"
        _ask(f"from {connection.access.server}", there, delete_jobs=delete_jobs, yes=yes)
        await _remove(connection, Setup(IMAGE, namespace), delete_jobs=delete_jobs)
        if not delete_jobs:
            print(f"kept: the kinds, and of them {there}; windlass operator uninstall --delete-jobs deletes them")

    _with(story, context, kubeconfig)
    return ExitCode.OK


@operator.command("check", short_help="Look whether the operator can do its work, and say what to do where it cannot")
def check(
    namespace: NamespaceOption = _NAMESPACE,
    output: FormatOption = Format.TABLE,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Look at the API server, the kinds, the permissions, the replicas and their leader, other operators, the nodes.

    Exits with 1 if something is wrong.
    """

    async def story(connection: Connection) -> list[dict[str, Any]]:
        from windlass.deploy.install.checking import check as look  # noqa: PLC0415

        found = await look(connection, namespace)
        return [{"verdict": str(f.verdict), "about": f.about, "says": f.says, "fix": f.fix} for f in found]

    rows = _with(story, context, kubeconfig)
    show(_CHECKED, rows, output, paint=paints(no_color=no_color))
    return ExitCode.FAILED if any(row["verdict"] == "wrong" for row in rows) else ExitCode.OK


def _access(context: str | None, kubeconfig: str | None) -> Access:
    """The cluster that is meant. Raises UsageError if its libraries are missing, and AccessError."""
    try:
        import_module("windlass.worlds.kubernetes.client.connection")
    except ModuleNotFoundError as missing:
        raise UsageError(f"{missing.name} is not installed\npip install 'windlass[kubernetes]'") from None
    from windlass.worlds.kubernetes.client.access import find, from_kubeconfig  # noqa: PLC0415 - verbs start light

    return from_kubeconfig(kubeconfig, context) if kubeconfig else find(context)


def _with(story: Callable[[Connection], Awaitable[T]], context: str | None, kubeconfig: str | None) -> T:
    """Run something with a connection to the cluster that is meant. Raises as `_access`."""
    access = _access(context, kubeconfig)
    from windlass.worlds.kubernetes.client.connection import Connection  # noqa: PLC0415 - after a missing extra was told

    async def connected() -> T:
        async with Connection(access) as connection:
            return await story(connection)

    return asyncio.run(connected())


async def _remove(connection: Connection, setup: Setup, *, delete_jobs: bool) -> None:
    from windlass.deploy.install.removing import remove  # noqa: PLC0415

    nothing = True
    async for gone in remove(connection, setup, delete_jobs=delete_jobs):
        nothing = False
        print(f"deleted {gone}", flush=True)
    if nothing:
        print(f"nothing of Windlass was in {setup.namespace}")


def _ask(where: str, there: str, *, delete_jobs: bool, yes: bool) -> None:
    """A person at a terminal is asked; whoever cannot be asked has to say --yes before jobs are deleted."""
    if yes:
        return
    what = f"delete the operator and {there}" if delete_jobs else f"delete the operator ({there} stay)"
    if sys.stdin.isatty():
        typer.confirm(f"{what} {where}?", abort=True)
    elif delete_jobs:
        raise UsageError(f"this would {what} {where}\nsay --yes")
