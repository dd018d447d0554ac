"""`windlass operator`: runs, installs, checks and uninstalls the operator of a cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import windlass
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import uses_color
from windlass.cli.target_options import NoColorOption
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, show
from windlass.cli.verb_group import verb_group
from windlass.cli.verbs.operator_run import (
    ContextOption,
    CordonOption,
    CullOption,
    DiagnosesOption,
    ForeignSchedulersOption,
    KubeconfigOption,
    ManagedNamespaces,
    ManagedNamespacesOption,
    MetricsLevel,
    MetricsLevelOption,
    NamespaceOption,
    NetworkOption,
    access_to,
    idle_limit,
    network_defaults,
    run,
    scheduler_rules,
)
from windlass.jobs.kubernetes.operator_names import NAMESPACE

if TYPE_CHECKING:
    from windlass.backends.kubernetes.client.connection import Connection
    from windlass.deploy.install.installer import ApplyOutcome
    from windlass.deploy.operator import Setup
    from windlass.jobs.kubernetes.manifest_reader import Manifest

T = TypeVar("T")
operator = verb_group("Run the operator; install it in a cluster, check it, write its files, uninstall it.")
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_CHECKED = Listing(
    (
        Column("", lambda row: row["severity"], style=lambda row: _STYLES[row["severity"]]),
        Column("CHECK", lambda row: row["about"]),
        Column("RESULT", lambda row: row["message"]),
        Column("FIX", lambda row: row["fix"]),
    ),
    key="about",
    empty="nothing was checked",
)


operator.command("run", short_help="Run one replica of the operator until SIGTERM")(run)


@operator.command("install", short_help="Apply everything the operator needs, and wait until it is ready")
def install(
    image: Annotated[
        str, typer.Option("--image", help="Image built with deploy/Dockerfile; default: windlass:VERSION.")
    ] = "",
    namespace: NamespaceOption = NAMESPACE,
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="One leads, the others are standbys.")] = 2,
    without_crds: Annotated[
        bool, typer.Option("--without-crds", help="Skip the kinds of other projects: Kubeflow's jobs and trainer.")
    ] = False,
    pod_groups: Annotated[
        bool, typer.Option("--pod-groups", help="Also install PodGroup, for a cluster without it.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace definitions of kinds that others have installed.")
    ] = False,
    trainer: Annotated[
        bool, typer.Option("--trainer", help="Also install the standard runtimes of TrainJobs, for the Kubeflow SDK.")
    ] = False,
    mpijob_v1: Annotated[
        bool, typer.Option("--mpijob-v1", help="Grant what MPIJobs of version v1 need: exec into pods, roles.")
    ] = False,
    diagnoses_at_once: DiagnosesOption = 1,
    cordon_bad_nodes: CordonOption = 0,
    cull_notebooks: CullOption = "",
    managed_namespaces: ManagedNamespacesOption = ManagedNamespaces.ALL,
    foreign_schedulers: ForeignSchedulersOption = "",
    network: NetworkOption = "",
    metrics_level: MetricsLevelOption = MetricsLevel.JOB,
    monitoring: Annotated[
        bool,
        typer.Option("--monitoring", help="Also install what the Prometheus operator reads: scrape and alerts."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False,
    render: Annotated[bool, typer.Option("--render", help="Only print everything as YAML, without a cluster.")] = False,
    wait: Annotated[
        int, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait for the replicas; 0: do not wait.")
    ] = 120,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Apply the kinds, the permissions and the operator by server-side apply; existing objects are updated.

    Run it again after an upgrade of Windlass. Definitions that others have installed are not changed.
    """
    from windlass.deploy.crds import chosen_groups  # noqa: PLC0415 - keeps the start of other verbs short
    from windlass.deploy.installation import installation_objects  # noqa: PLC0415
    from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml  # noqa: PLC0415

    setup = _with_schedulers(_setup(image, namespace, replicas), foreign_schedulers)
    setup = replace(setup, mpijob_v1=mpijob_v1, managed_namespaces=str(managed_namespaces))
    setup = replace(setup, network=network if network_defaults(network) else "")
    setup = replace(setup, diagnoses_at_once=diagnoses_at_once, cordon_bad_nodes=cordon_bad_nodes)
    setup = replace(setup, cull_notebooks=cull_notebooks if idle_limit(cull_notebooks) else "")
    setup = replace(setup, metrics_level=str(metrics_level), monitoring=monitoring)
    groups = chosen_groups(others=not without_crds, trainer=trainer, pod_groups=pod_groups)
    objects = installation_objects(setup, groups, trainer=trainer)
    if render:
        print(as_yaml(objects), end="")
        return ExitCode.OK

    _run_connected(
        lambda connection: _apply_objects(connection, objects, setup, dry_run=dry_run, take_over=take_over, wait=wait),
        context,
        kubeconfig,
    )
    _report_installation(namespace, dry_run=dry_run, trainer=trainer)
    return ExitCode.OK


async def _apply_objects(
    connection: Connection, objects: Sequence[Manifest], setup: Setup, *, dry_run: bool, take_over: bool, wait: int
) -> None:
    """Applies objects, prints the effect on each, and waits until the operator is ready."""
    from windlass.deploy.install.installer import apply  # noqa: PLC0415
    from windlass.deploy.install.readiness import wait_until_admitted, wait_until_ready  # noqa: PLC0415
    from windlass.deploy.install.resources import job_kinds  # noqa: PLC0415

    async for applied in apply(connection, objects, dry_run=dry_run, take_over=take_over):
        print(f"{_change_label(applied.change, dry_run=dry_run)} {applied.name}", flush=True)
    if take_over:
        await _warn_of_webhooks(connection, setup.namespace)
    if wait and not dry_run:
        print("waiting until the API server admits jobs …", file=sys.stderr)
        await wait_until_admitted(connection, setup.namespace, job_kinds(objects))
        print(f"waiting for {setup.replicas} of {setup.image} …", file=sys.stderr)
        await wait_until_ready(connection, setup.namespace, wait)


async def _warn_of_webhooks(connection: Connection, namespace: str) -> None:
    """Prints which webhooks of Kubeflow's operators refuse jobs, now or later, and the command that deletes each."""
    from windlass.deploy.install.installation_check import run_check  # noqa: PLC0415 - as above
    from windlass.deploy.install.webhook_check import check_webhooks  # noqa: PLC0415

    for found in await run_check(check_webhooks, connection, namespace):
        if found.fix:
            print(f"{found.severity}: {found.message}; {found.fix}", file=sys.stderr)


def _setup(image: str, namespace: str, replicas: int) -> Setup:
    from windlass.deploy.installation import IMAGE  # noqa: PLC0415 - keeps the start of other verbs short
    from windlass.deploy.operator import Setup  # noqa: PLC0415

    return Setup(image or IMAGE, namespace, replicas)


def _with_schedulers(setup: Setup, text: str) -> Setup:
    """Returns the setup with rules for other schedulers, and the rights that these need. Raises UsageError."""
    from windlass.deploy.permissions import FOREIGN_POD_GROUPS  # noqa: PLC0415 - keeps the start of other verbs short

    dialects = tuple(sorted(scheduler_rules(text).dialects & FOREIGN_POD_GROUPS.keys()))
    return replace(setup, foreign_schedulers=text, pod_groups=dialects)


def _report_installation(namespace: str, *, dry_run: bool, trainer: bool) -> None:
    """Prints the end of an installation, and what `--trainer` has added."""
    if dry_run:
        print("nothing was changed: this was a dry run", file=sys.stderr)
        return
    print(f"Windlass is installed in {namespace}; check it with: windlass operator check -n {namespace}")
    if not trainer:
        return
    from windlass.deploy.trainer_objects import NAMESPACE, TRAINER_VERSION, labelled_runtimes  # noqa: PLC0415

    names = ", ".join(each["metadata"]["name"] for each in labelled_runtimes())
    print(f"TrainJobs can name the runtimes {names}")
    print(f"the Kubeflow SDK finds the version of the trainer, {TRAINER_VERSION}, in {NAMESPACE}")


@operator.command("files", short_help="Write the Helm chart, the kustomizations and the files for monitoring")
def files(folder: Annotated[Path, typer.Argument(help="Folder to write into; made if it does not exist.")]) -> int:
    """Write the objects of `operator install` as a Helm chart and as kustomizations, for clusters managed by these.

    Also writes the rules for Prometheus, boards for Grafana, and values for the DCGM exporter.
    """
    from windlass.deploy import files as deployment  # noqa: PLC0415 - keeps the start of other verbs short

    header = f"# Written by `windlass operator files`, version {windlass.__version__}.\n"
    contents = deployment.files(header)
    deployment.write_files(folder, contents)
    print(f"wrote {len(contents)} files to {folder}")
    print(f"  helm install windlass {folder}/helm/windlass -n {NAMESPACE} --create-namespace")
    print(f"  kubectl apply --server-side -k {folder}/kustomize/overlays/default")
    return ExitCode.OK


@operator.command("uninstall", short_help="Uninstall the operator; jobs stay unless --delete-jobs")
def uninstall(
    namespace: NamespaceOption = NAMESPACE,
    delete_jobs: Annotated[
        bool, typer.Option("--delete-jobs", help="Also delete the kinds, and with them every job and its pods.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> int:
    """Delete the operator, its permissions and its namespace, if `operator install` has created that.

    Jobs, queues and the definitions of their kinds stay unless --delete-jobs is given. Running pods keep running
    without an operator.
    """
    from windlass.deploy.installation import IMAGE  # noqa: PLC0415
    from windlass.deploy.operator import Setup  # noqa: PLC0415

    async def run_uninstall(connection: Connection) -> None:
        from windlass.deploy.install.uninstaller import count_jobs  # noqa: PLC0415

        jobs = ", ".join(f"{count} {kind}" for kind, count in (await count_jobs(connection)).items()) or "no jobs"
        _confirm(f"from {connection.access.server}", jobs, delete_jobs=delete_jobs, yes=yes)
        await _remove(connection, Setup(IMAGE, namespace), delete_jobs=delete_jobs)
        if not delete_jobs:
            print(f"kept: the kinds, and {jobs}; windlass operator uninstall --delete-jobs deletes them")

    _run_connected(run_uninstall, context, kubeconfig)
    return ExitCode.OK


@operator.command("check", short_help="Check whether the operator can work, and print a fix for every problem")
def check(
    namespace: NamespaceOption = NAMESPACE,
    output: FormatOption = Format.TABLE,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="List everything that is missing, even if nothing is installed.")
    ] = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Check the API server, the kinds, the permissions, the replicas and their leader, other operators and the nodes.

    Exits with 1 if something is wrong.
    """

    async def run_checks(connection: Connection) -> list[dict[str, Any]]:
        from windlass.deploy.install.installation_check import check_installation  # noqa: PLC0415

        found = await check_installation(connection, namespace, whole=verbose)
        return [{"severity": str(f.severity), "about": f.about, "message": f.message, "fix": f.fix} for f in found]

    rows = _run_connected(run_checks, context, kubeconfig)
    show(_CHECKED, rows, output, paint=uses_color(no_color=no_color))
    return ExitCode.FAILED if any(row["severity"] == "error" for row in rows) else ExitCode.OK


def _change_label(change: ApplyOutcome, *, dry_run: bool) -> str:
    """Returns what was, or would be, done to an object; padded so that a list is aligned."""
    would = f"would be {change}" if change in ("created", "changed") else change
    return f"{would:<16}" if dry_run else f"{change:<13}"


def _run_connected(action: Callable[[Connection], Awaitable[T]], context: str | None, kubeconfig: str | None) -> T:
    """Runs a coroutine with a connection to the selected cluster. Raises as `access_to`."""
    access = access_to(context, kubeconfig)
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415 - after access_to's check

    async def connected() -> T:
        async with Connection(access) as connection:
            return await action(connection)

    return asyncio.run(connected())


async def _remove(connection: Connection, setup: Setup, *, delete_jobs: bool) -> None:
    from windlass.deploy.install.uninstaller import remove  # noqa: PLC0415

    deleted = False
    async for name in remove(connection, setup, delete_jobs=delete_jobs):
        deleted = True
        print(f"deleted {name}", flush=True)
    if not deleted:
        print(f"nothing of Windlass was in {setup.namespace}")


def _confirm(where: str, jobs: str, *, delete_jobs: bool, yes: bool) -> None:
    """Asks on a terminal. Without a terminal, raises UsageError if jobs would be deleted without --yes."""
    if yes:
        return
    what = f"delete the operator and {jobs}" if delete_jobs else f"delete the operator ({jobs} stay)"
    if sys.stdin.isatty():
        typer.confirm(f"{what} {where}?", abort=True)
    elif delete_jobs:
        raise UsageError(f"this would {what} {where}\nadd --yes")
