"""`windlass operator`: be the operator, bring it into a cluster, look after it, take it away again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import NoColorOption, uses_color
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, show
from windlass.cli.verbs.operator_run import (
    NAMESPACE,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    access_to,
    run,
)

if TYPE_CHECKING:
    from windlass.backends.kubernetes.client.connection import Connection
    from windlass.deploy.install.installer import ApplyOutcome
    from windlass.deploy.operator import Setup

T = TypeVar("T")
operator = typer.Typer(
    help="Be the operator; or bring it into a cluster, look after it, take it away again.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_CHECKED = Listing(
    (
        Column("", lambda row: row["severity"], style=lambda row: _STYLES[row["severity"]]),
        Column("ABOUT", lambda row: row["about"]),
        Column("FOUND", lambda row: row["message"]),
        Column("WHAT TO DO", lambda row: row["fix"]),
    ),
    key="about",
    empty="nothing was looked at",
)


operator.command("run", short_help="Be one replica of the operator, until it is told to end")(run)


@operator.command("install", short_help="Apply everything that the operator needs, and wait until it is ready")
def install(
    image: Annotated[
        str, typer.Option("--image", help="The operator's image, made with deploy/Dockerfile; else windlass:VERSION.")
    ] = "",
    namespace: NamespaceOption = NAMESPACE,
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
    from windlass.deploy.installation import IMAGE, installation_objects  # noqa: PLC0415
    from windlass.deploy.operator import Setup  # noqa: PLC0415
    from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml  # noqa: PLC0415

    setup = Setup(image or IMAGE, namespace, replicas)
    groups = ((OWN,) if without_crds else DEFAULT) + ((POD_GROUPS,) if pod_groups else ())
    objects = installation_objects(setup, groups)
    if render:
        print(as_yaml(objects), end="")
        return ExitCode.OK

    async def story(connection: Connection) -> None:
        from windlass.deploy.install.installer import apply  # noqa: PLC0415
        from windlass.deploy.install.readiness import wait_until_ready  # noqa: PLC0415

        async for applied in apply(connection, objects, dry_run=dry_run, take_over=take_over):
            print(f"{_word(applied.change, dry_run=dry_run)} {applied.name}", flush=True)
        if wait and not dry_run:
            print(f"waiting for {replicas} of {setup.image} …", file=sys.stderr)
            await wait_until_ready(connection, namespace, wait)

    _with(story, context, kubeconfig)
    if dry_run:
        print("nothing was changed: this was a dry run", file=sys.stderr)
    else:
        print(f"Windlass is installed in {namespace}; windlass operator check -n {namespace} looks after it")
    return ExitCode.OK


@operator.command("uninstall", short_help="Take the operator away; jobs stay unless they are to go")
def uninstall(
    namespace: NamespaceOption = NAMESPACE,
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
        from windlass.deploy.install.uninstaller import count_jobs  # noqa: PLC0415

        there = ", ".join(f"{count} {kind}" for kind, count in (await count_jobs(connection)).items()) or "no jobs"
        _ask(f"from {connection.access.server}", there, delete_jobs=delete_jobs, yes=yes)
        await _remove(connection, Setup(IMAGE, namespace), delete_jobs=delete_jobs)
        if not delete_jobs:
            print(f"kept: the kinds, and of them {there}; windlass operator uninstall --delete-jobs deletes them")

    _with(story, context, kubeconfig)
    return ExitCode.OK


@operator.command("check", short_help="Look whether the operator can do its work, and say what to do where it cannot")
def check(
    namespace: NamespaceOption = NAMESPACE,
    output: FormatOption = Format.TABLE,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="All that is missing, also where nothing is installed at all.")
    ] = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Look at the API server, the kinds, the permissions, the replicas and their leader, other operators, the nodes.

    Exits with 1 if something is wrong.
    """

    async def story(connection: Connection) -> list[dict[str, Any]]:
        from windlass.deploy.install.installation_check import check_installation as look  # noqa: PLC0415

        found = await look(connection, namespace, whole=verbose)
        return [{"severity": str(f.severity), "about": f.about, "message": f.message, "fix": f.fix} for f in found]

    rows = _with(story, context, kubeconfig)
    show(_CHECKED, rows, output, paint=uses_color(no_color=no_color))
    return ExitCode.FAILED if any(row["severity"] == "error" for row in rows) else ExitCode.OK


def _word(change: ApplyOutcome, *, dry_run: bool) -> str:
    """What was done to an object, or would be; words of one list are equally long."""
    would = f"would be {change}" if change in ("created", "changed") else change
    return f"{would:<16}" if dry_run else f"{change:<13}"


def _with(story: Callable[[Connection], Awaitable[T]], context: str | None, kubeconfig: str | None) -> T:
    """Run something with a connection to the cluster that is meant. Raises as `access_to`."""
    access = access_to(context, kubeconfig)
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415 - after a missing extra was told

    async def connected() -> T:
        async with Connection(access) as connection:
            return await story(connection)

    return asyncio.run(connected())


async def _remove(connection: Connection, setup: Setup, *, delete_jobs: bool) -> None:
    from windlass.deploy.install.uninstaller import remove  # noqa: PLC0415

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
