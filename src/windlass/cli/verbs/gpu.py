"""`windlass gpu`: plans how workloads share the GPUs of node pools, and writes the configuration of the plan."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.output import as_json, as_yaml
from windlass.cli.verb_group import verb_group
from windlass.hardware.sharing.plan import SharingPlan, plan_sharing
from windlass.hardware.sharing.render.files import rendered_files
from windlass.hardware.sharing.report import markdown_sharing_plan, plain_sharing_plan, text_sharing_plan
from windlass.hardware.sharing.request_file import load_request, request_of_options
from windlass.wire import escape_controls

_STDOUT = "-"

gpu = verb_group("Plan how workloads share GPUs.")


class _Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


@gpu.callback()
def _describe() -> None:
    """Plan how workloads share the GPUs of node pools."""


@gpu.command("plan", short_help="Choose whole GPUs, MIG, MPS or time-slicing for each group of nodes")
def plan(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Request with pools and workloads; - for standard input.")
    ] = "",
    pool: Annotated[
        list[str] | None, typer.Option("--pool", help="name=a,gpu=A100-80GB,gpus=8,nodes=4; without FILE.")
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", help="name=chat,kind=inference,number=6,memory=18Gi,duration=40ms,rate=20/s,…"),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the arrivals. Default: 0.")] = None,
    render: Annotated[
        str,
        typer.Option(
            "--render", metavar="DIR", help="Write the configuration files there instead of the report; - prints them."
        ),
    ] = "",
    output: Annotated[_Form, typer.Option("-o", "--output", help="Output format.")] = _Form.TEXT,
) -> int:
    """Plan whole GPUs, MIG, MPS or time-slicing for each group of nodes, with reasons and expected latency.

    Nothing runs and no GPU is needed: arrivals are simulated and every assumption is printed. Exits with 1 if a pod
    finds no place, or if a use that the request names breaks a limit.
    """
    if bool(file) == bool(pool or workload):
        raise UsageError("name either a FILE, or pools and workloads by --pool and --workload")
    if file and seed is not None:
        raise UsageError("--seed belongs to --pool and --workload; write seed into the file")
    request = load_request(file) if file else request_of_options(pool or [], workload or [], seed or 0)
    made = plan_sharing(request)
    files = rendered_files(made) if render else {}
    is_refused = any(each.refused or each.broken for each in made.workloads)
    if render == _STDOUT:
        print(_one_text(files), end="")
    elif not render or is_refused or output is not _Form.TEXT:
        _print_plan(made, output)
    if render not in ("", _STDOUT):
        _write_files(Path(render), files)
        print(f"wrote {', '.join(sorted(files))} to {render}", file=sys.stderr)
    return ExitCode.FAILED if is_refused else ExitCode.OK


def _print_plan(made: SharingPlan, output: _Form) -> None:
    if output is _Form.JSON:
        print(as_json(plain_sharing_plan(made)))
    elif output is _Form.YAML:
        print(as_yaml(plain_sharing_plan(made)), end="")
    else:
        lines = markdown_sharing_plan(made) if output is _Form.MARKDOWN else text_sharing_plan(made)
        print(escape_controls("\n".join(lines)))


def _one_text(files: dict[str, str]) -> str:
    """Returns all YAML documents as one stream; the shell script is a comment of it."""
    parts = []
    for name, text in sorted(files.items()):
        body = text if name.endswith(".yaml") else "".join(f"# {line}\n" for line in text.splitlines())
        parts.append(f"---\n# {name}\n{body}")
    return "".join(parts)


def _write_files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
