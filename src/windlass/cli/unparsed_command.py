"""A verb that parses its own arguments, as the program does whose options it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class UnparsedCommand(click.Command):
    """A click command that passes its arguments to a function, which returns the exit code."""

    def __init__(self, name: str, run: Callable[[list[str]], int], options: Callable[[], str], *, help: str) -> None:
        super().__init__(name, help=help)
        self._run, self._options = run, options

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the arguments unparsed."""
        ctx.args = args
        return args

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - the base class's signature
        """Returns the help of the program whose options the verb has."""
        return self._options()

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb; returns its exit code."""
        return self._run(ctx.args)
