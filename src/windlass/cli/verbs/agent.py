"""`windlass agent`: passes its arguments unchanged to the agent, which parses them as torchrun does."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.agent import entry
from windlass.agent.torchrun_options import parser


class _Agent(click.Command):
    """A click command whose arguments are those of torchrun and of the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the arguments unparsed."""
        ctx.args = args
        return args

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - the base class's signature
        """Returns the help of the agent's own parser."""
        return parser(os.environ).format_help()

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the agent; returns its exit code."""
        return entry.main(ctx.args)


agent = _Agent("agent", help="Start and supervise the ranks of one node, instead of torchrun.")
