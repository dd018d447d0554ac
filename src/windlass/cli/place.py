"""Where a verb looks: the state folder, and how it may paint. Options that every verb takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

StateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder.", envvar="WINDLASS_STATE", show_envvar=True),
]
NoColorOption: TypeAlias = Annotated[
    bool, typer.Option("--no-color", help="Plain text; the variable NO_COLOR does the same.")
]


def state_folder(given: Path | None) -> Path:
    """The state folder: as given, else `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`."""
    if given is not None:
        return given.expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "windlass"


def paints(*, no_color: bool) -> bool:
    """Whether stdout shows colours: only a terminal that can, and only if nobody minds (no-color.org)."""
    minds = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not minds
