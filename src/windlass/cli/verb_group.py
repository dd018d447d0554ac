"""Makes the typer application of a verb that has verbs of its own, such as `windlass gpu plan`."""

from __future__ import annotations

from typing import Any

import typer


def verb_group(text: str, **more: Any) -> typer.Typer:
    """A group with the help `text`, which it prints without arguments. `more`: further arguments of `typer.Typer`."""
    return typer.Typer(
        help=text,
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )
