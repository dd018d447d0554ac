"""`windlass agent`: what is typed goes to the agent as it is, which reads it as torchrun would."""

from __future__ import annotations

import os
from typing import Any

import click

from windlass.agent import entry
from windlass.agent.torchrun_options import parser


class _Agent(click.Command):
    """Everything after the verb is torchrun's or the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Nothing is read here."""
        ctx.args = args
        return args

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - the base class's signature
        """As the agent says it."""
        return parser(os.environ).format_help()

    def invoke(self, ctx: click.Context) -> Any:
        """Be the agent."""
        return entry.main(ctx.args)


agent = _Agent("agent", help="Start and watch the ranks of one node, in the place of torchrun.")
