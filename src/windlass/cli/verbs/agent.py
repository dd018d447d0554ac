"""`windlass agent`: passes its arguments unchanged to the agent, which parses them as torchrun does."""

from __future__ import annotations

import os

from windlass.agent import entry
from windlass.agent.torchrun_options import parser
from windlass.cli.unparsed_command import UnparsedCommand

agent = UnparsedCommand(
    "agent",
    entry.main,
    lambda: parser(os.environ).format_help(),
    help="Start and supervise the ranks of one node, instead of torchrun.",
)
