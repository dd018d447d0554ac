"""The options by which subcommands select a target, its namespace and its state folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from windlass.cli.target import KUBERNETES, LOCAL, SLURM


def _complete_targets(incomplete: str) -> list[str]:
    """Returns completions of --on; errors of the kubeconfig are ignored."""
    return [name for name in (LOCAL, KUBERNETES, SLURM, *_kubeconfig_contexts()) if name.startswith(incomplete)]


def _kubeconfig_contexts() -> list[str]:
    """Returns the names of the contexts in `$KUBECONFIG`, file by file; unreadable files have none."""
    files = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return list(dict.fromkeys(name for file in files.split(os.pathsep) if file for name in _contexts_in(Path(file))))


def _contexts_in(file: Path) -> list[str]:
    import yaml  # noqa: PLC0415 - only for completion

    try:
        content: Any = yaml.safe_load(file.expanduser().read_text())
        return [str(each["name"]) for each in content["contexts"]]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []


StateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder.", envvar="WINDLASS_STATE", show_envvar=True),
]
NoColorOption: TypeAlias = Annotated[
    bool, typer.Option("--no-color", help="No colors; the variable NO_COLOR does the same.")
]
OnOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="local|kubernetes|slurm|CONTEXT",
        help="This machine, the current cluster, the Slurm of this login node, or a context of the kubeconfig.",
        envvar="WINDLASS_ON",
        show_envvar=True,
        autocompletion=_complete_targets,
    ),
]
NamespaceOption: TypeAlias = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="On Kubernetes; default: that of the context.")
]
