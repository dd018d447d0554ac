"""`windlass doctor`: finds out why a machine, a cluster or a job does not work as it should, and prints the fix."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.named_job import read_job
from windlass.cli.target import record_source, state_folder, warn_if_offline
from windlass.cli.target_options import NamespaceOption as JobNamespaceOption
from windlass.cli.target_options import OnOption, StateOption
from windlass.cli.terminal.progress import ProgressBar
from windlass.cli.terminal.report_format import ReportFormat, ReportFormatOption, print_report
from windlass.cli.verb_group import verb_group
from windlass.cli.verbs.operator_run import ContextOption, KubeconfigOption, access_to
from windlass.diagnose.steps import CheckStep, is_wrong

if TYPE_CHECKING:
    from windlass.diagnose.cluster.survey import ClusterSurvey

_LOGS = "logs"
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".gz", ".py")


class _ChecksOrLogs(TyperGroup):
    """The group of checks. Words that are no check name logs, as if `logs` stood before them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Inserts the command for logs where the first word is neither a command nor a request for help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_LOGS, *args]
        return super().parse_args(ctx, args)


doctor = verb_group(
    "Find out why a job failed, or what is wrong, and print the fix.",
    cls=_ChecksOrLogs,
    subcommand_metavar="JOB | FILE... | - | COMMAND [ARGS]...",
)


@doctor.callback()
def _describe() -> None:
    """Find out why a job failed from its logs, or what is wrong with a machine or a cluster, and print the fix.

    `windlass doctor JOB` names the root cause of a failed job, `windlass doctor FILE...` that of logs of any launcher:
    files, folders, or - for standard input. `windlass doctor logs --help` lists its options.
    """


@doctor.command(_LOGS, short_help="The root cause of a failed job, from its logs; the word `logs` may be left out")
def logs(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB | FILE...",
            help="Files, folders, or - for standard input; a word that is no file is a job.",
            autocompletion=complete_job_names,
        ),
    ],
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Of a job: which attempt; default: the newest.")
    ] = None,
    output: ReportFormatOption = ReportFormat.TEXT,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Print tokens, keys and passwords of the logs as they are.")
    ] = False,
    has_failed: Annotated[
        bool, typer.Option("--failed", help="The job has failed or stands still: the place where a log ends counts.")
    ] = False,
    on: OnOption = "",
    namespace: JobNamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Name the root cause of a failed job, with its evidence, the fix and the next command.

    Of a job it reads the logs of all ranks, how they ended, and what the cluster says; of one that waits, why. Of one
    that runs it also prints the last signs of its ranks: the one that is furthest behind first.

    Reads logs of torchrun, windlass, MPI, DeepSpeed, accelerate, Ray, Horovod, Slurm, kubectl and the kernel, also
    compressed by gzip. Exits with 1 if a cause was found, with 0 if no line points to a failure: also of
    a job that runs, waits for its turn, or has succeeded.
    """
    is_job = bool(on) or (len(words) == 1 and words[0] != "-" and not _is_file(words[0]))
    report: Callable[[], ExitCode]
    with ProgressBar(words[0] if is_job else "reading logs", no_color=False, terminal_only=True) as show:
        show(0.0, 0, 0, "loading the rules")
        if is_job:
            from windlass.cli.doctor_job import JobSelection, diagnose_job, print_job_diagnosis  # noqa: PLC0415

            job = JobSelection(words[0], on, namespace, state, attempt)
            of_job = diagnose_job(job, show, show_secrets=show_secrets, has_failed=has_failed)
            report = partial(print_job_diagnosis, of_job, output)
        else:
            from windlass.cli.failure_report import diagnose_logs, print_diagnosis  # noqa: PLC0415

            of_logs = diagnose_logs(words, show, show_secrets=show_secrets, has_failed=has_failed)
            report = partial(print_diagnosis, of_logs, output)
    return report()


def _is_file(word: str) -> bool:
    """Tells whether a word is a file or folder: it exists, or is a path by its form, which no job's name has."""
    is_path = word.startswith(("/", "./", "../", "~")) or word.endswith(("/", *_LOG_SUFFIXES)) or word.count("/") > 1
    return is_path or Path(word).exists()


@doctor.command("cluster", short_help="Check the cluster: nodes, device plugins, scheduler, queues, stuck pods")
def cluster(
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Only this namespace. Default: all that you may list.")
    ] = "",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    output: ReportFormatOption = ReportFormat.TEXT,
    state: StateOption = None,
) -> int:
    """Check the cluster: node pools with runtime, device plugin or DRA and devices, scheduler, queues, pods, operators.

    Only lists objects, with your own permissions; what you may not list is a step of its own. The last results of
    `windlass network test` are steps, too. Exits with 1 if a step is wrong.
    """
    access = access_to(context, kubeconfig)
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415 - after access_to's check
    from windlass.cli.kubernetes.api_session import REQUEST_TIMEOUT_S  # noqa: PLC0415
    from windlass.cli.kubernetes.cluster_survey import survey_cluster  # noqa: PLC0415
    from windlass.cli.network_results import read_results  # noqa: PLC0415
    from windlass.diagnose.cluster.checklist import check_cluster  # noqa: PLC0415

    async def survey(show: ProgressBar) -> ClusterSurvey:
        async with Connection(access, within=REQUEST_TIMEOUT_S, attempt=REQUEST_TIMEOUT_S) as connection:
            own = namespace or access.namespace
            return await survey_cluster(connection, own, int(time.time() * 1000), whole=not namespace, show=show)

    with ProgressBar("listing objects", no_color=False, terminal_only=True) as show:
        found = asyncio.run(survey(show))
    steps = check_cluster(replace(found, network_tests=read_results(state_folder(state), access.server)))
    print_report(context or "cluster", steps, output)
    return ExitCode.FAILED if is_wrong(steps) else ExitCode.OK


@doctor.command("slow", short_help="What a training job waits for, with the share of each cause")
def slow(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A name or an id.", autocompletion=complete_job_names)],
    output: ReportFormatOption = ReportFormat.TEXT,
    on: OnOption = "",
    namespace: JobNamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Divide the time of a job between stragglers, data, communication, checkpoints, low clocks and computation.

    Reads what the ranks of `windlass.train` have reported since their first step. Exits with 1 if a cause takes a
    quarter of the run.
    """
    from windlass.diagnose.slow.analysis import analyze_slowness  # noqa: PLC0415 - only for this verb
    from windlass.diagnose.slow.rank_times import read_ranks  # noqa: PLC0415

    source = record_source(on, namespace, state)
    warn_if_offline(source)
    details = read_job(source, job)
    if "members" in details:
        raise UsageError(f"{job} is an array\nname one of its jobs: {details['members'][0]['id']}")
    ranks = (details.get("progress") or {"ranks": []})["ranks"]
    steps = analyze_slowness(read_ranks(ranks), max(len(ranks), details.get("ranks") or 0))
    print_report(details["id"], steps, output)
    return ExitCode.FAILED if is_wrong(steps) else ExitCode.OK


@doctor.command("host", short_help="Check this machine from the PCI bus to the framework")
def host(
    root: Annotated[
        Path, typer.Option("--root", help="Where the machine's file systems are mounted, such as /host in a debug pod.")
    ] = Path("/"),
    burn: Annotated[
        bool, typer.Option("--burn", help="Also load GPUs or CPU, memory, all-reduce and disks, with figures.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=3600, help="With --burn: duration of each load test.")
    ] = 10.0,
    output: ReportFormatOption = ReportFormat.TEXT,
) -> int:
    """Check this machine: GPUs, driver, NVML, fabric, containers, torch and NCCL, RDMA, limits, disks, clock, name.

    Nothing is changed. Every step is ok, not there, not visible from here, a warning, or wrong; the last two print
    the fix. Exits with 1 if a step is wrong.
    """
    from windlass.diagnose.host.checklist import check_host  # noqa: PLC0415 - loads all checks
    from windlass.diagnose.host.readers.files import is_machine  # noqa: PLC0415
    from windlass.diagnose.host.readers.host_reader import READING_STEPS, read_host  # noqa: PLC0415
    from windlass.diagnose.host.readers.live_calls import MOUNTED  # noqa: PLC0415

    if not is_machine(root):
        raise UsageError(f"--root {root} has neither proc nor sys: name the folder at which the machine's / is mounted")
    folders = ("/", tempfile.gettempdir(), str(Path.home()), os.environ.get("WINDLASS_STATE", "/"))
    with ProgressBar("reading this machine", no_color=False, terminal_only=True) as show:
        count = itertools.count()
        facts = read_host(
            root,
            MOUNTED if root != Path("/") else None,
            folders,
            os.environ,
            lambda step: show((at := next(count)) / READING_STEPS, at, READING_STEPS, step),
        )
    steps = check_host(facts)
    if burn:
        steps += _burn(seconds, len(facts.nvml.gpus))
    print_report(facts.host or "host", steps, output)
    return ExitCode.FAILED if is_wrong(steps) else ExitCode.OK


def _burn(seconds: float, gpus: int) -> tuple[CheckStep, ...]:
    """Runs the load tests and returns their steps. Progress goes to stderr."""
    from windlass.diagnose.host.burn.burn_in import burn  # noqa: PLC0415 - only with --burn
    from windlass.diagnose.host.burn.measurement import judge_measurements  # noqa: PLC0415

    folders = {folder.stat().st_dev: str(folder) for folder in (Path.cwd(), Path(tempfile.gettempdir()))}
    found = burn(seconds, gpus, [*folders.values()], lambda line: print(line, file=sys.stderr, flush=True))
    return tuple(judge_measurements(found))
