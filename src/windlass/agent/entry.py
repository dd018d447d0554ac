"""Entry point of `windlass agent`, of `python -m windlass.agent`, and of the file that `windlass agent pack` writes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from windlass.agent import agent, messages, options, pack

_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Runs the command line. Returns the exit code."""
    try:
        return _main(arguments)
    finally:
        messages.console.close()


def _main(arguments: Sequence[str]) -> int:
    try:
        if list(arguments[:1]) == ["pack"]:
            return _pack(arguments[1:])
        return agent.run(options.parse_options(arguments, os.environ))
    except options.CommandLineError as error:
        messages.print_message(str(error))
        return _USAGE
    except OSError as error:
        messages.print_message(str(error))
        return 1


def _pack(arguments: Sequence[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "--to":
        messages.print_message("usage: windlass agent pack --to FILE")
        return _USAGE
    pack.pack(arguments[1])
    messages.print_message(f"written; run it with `python {arguments[1]} …` wherever Python is 3.9 or newer")
    return 0
