"""The options of torchrun, as of torch 2.13: names, defaults and the PET_* variables that stand in for them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


class Option(NamedTuple):
    """An option with a value.

    `note`: the reason why it is accepted but has no effect here. `variable`: whether torchrun reads a default from a
    PET_* variable.
    """

    name: str
    help: str
    default: Any = None
    type: Any = str
    short: str = ""
    choices: tuple[str, ...] = ()
    note: str = ""
    variable: bool = True


class Flag(NamedTuple):
    """An option without a value; its variable is a number, and 0 means that it is not set."""

    name: str
    help: str
    short: str = ""


OPTIONS: tuple[Option | Flag, ...] = (
    Option("nnodes", "number of nodes, or MIN:MAX", "1:1"),
    Option("nproc-per-node", "ranks on this node: a number, or auto, cpu, gpu, xpu", "1"),
    Option("rdzv-backend", "c10d (agents meet in any order) or static (--node-rank gives the order)", "static"),
    Option("rdzv-endpoint", "endpoint at which agents meet first: HOST:PORT of one of the nodes", ""),
    Option("rdzv-id", "name of this run; agents of other runs are turned away", "none"),
    Option("rdzv-conf", "KEY=VALUE,…: join_timeout, last_call_timeout, keep_alive_interval, is_host, …", ""),
    Flag("standalone", "one node, no rendezvous"),
    Option("max-restarts", "number of failures of ranks from which the run recovers", 0, int),
    Option(
        "monitor-interval",
        "accepted, not needed",
        0.1,
        float,
        note="ends of ranks are reported at once, without polling",
    ),
    Option(
        "start-method",
        "accepted, not needed",
        "spawn",
        choices=("spawn", "fork", "forkserver"),
        note="ranks are always forked from a process that has imported torch",
    ),
    Option("event-log-handler", "accepted, not needed", "null", note="events are printed on stderr"),
    Option("role", "prefix of the lines of its ranks", "default"),
    Flag("module", "the script is a module, as for python -m", "m"),
    Flag("no-python", "the script is a program, not Python"),
    Flag("run-path", "the script is run by its path in a process that is forked; here it always is"),
    Option("log-dir", "folder for the ranks' output, one below it for each run", None),
    Option("redirects", "write streams to files: 1 stdout, 2 stderr, 3 both, or LOCAL_RANK:WHICH,…", "0", short="r"),
    Option("tee", "to files and to the console, in the same way", "0", short="t"),
    Option("local-ranks-filter", "show only these local ranks on the console", ""),
    Option(
        "duplicate-stdout-filters", "accepted, without effect", "", note="no filtered copies of the output are kept"
    ),
    Option(
        "duplicate-stderr-filters", "accepted, without effect", "", note="no filtered copies of the output are kept"
    ),
    Option("node-rank", "with static rendezvous: number of this node", 0, int),
    Option("master-addr", "with static rendezvous: address of node 0", "127.0.0.1"),
    Option("master-port", "with static rendezvous: port of node 0, 29500 by default", None, int),
    Option("local-addr", "address by which other nodes reach this one", None),
    Option("logs-specs", "refused: a plugin of torchrun's own", None, variable=False),
    Option(
        "numa-binding",
        "accepted, without effect",
        None,
        choices=("node", "socket", "exclusive", "core-complex"),
        note="ranks are not bound to CPUs; `numactl` in front of the agent binds all of them",
        variable=False,
    ),
    Option("signals-to-handle", "signals that are passed on to the ranks before they are killed", SIGNALS),
    Option("shutdown-timeout", "seconds from a signal that is passed on to SIGKILL, 30 by default", None, int),
    Flag("virtual-local-rank", "each rank sees one GPU, its own, as number 0"),
)


class _Help(argparse.HelpFormatter):
    """Formats help as the other commands of Windlass do."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        super().add_usage(usage, actions, groups, prefix or "Usage: ")


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """A parser of torchrun's command line. `environment`: source of the PET_* variables."""
    result = argparse.ArgumentParser(
        prog="windlass agent",
        formatter_class=_Help,
        usage="windlass agent [OPTIONS] SCRIPT [ARGUMENTS…]\n       windlass agent pack --to FILE",
        description="Start the ranks of one node, watch them and restart them. Takes torchrun's command line; "
        "`pack` writes this agent as one file, for images without Windlass.",
    )
    for option in OPTIONS:
        if isinstance(option, Flag):
            _add_flag(result, option, environment)
        else:
            _add_option(result, option, environment)
    result.add_argument(
        "--hang",
        default=environment.get("WINDLASS_HANG", ""),
        help="KEY=VALUE,…: limits of hang detection: factor (8) × the usual longest time of the phase, at "
        "least floor (120) seconds; initial (1800): for first steps, compilations and open phases; "
        "communication (60): for phases that only exchange messages; silence (0: none): without any output",
    )
    result.add_argument("training_script", metavar="SCRIPT", help="the training script, a module or a program")
    result.add_argument("training_script_args", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="its arguments")
    return result


def _names(option: Option | Flag) -> list[str]:
    spelled = [f"-{option.short}"] if option.short else []
    spelled.append(f"--{option.name}")
    if "-" in option.name:
        spelled.append(f"--{option.name.replace('-', '_')}")
    return spelled


def _variable(name: str) -> str:
    return "PET_" + name.replace("-", "_").upper()


def _add_flag(result: argparse.ArgumentParser, flag: Flag, environment: Mapping[str, str]) -> None:
    value = environment.get(_variable(flag.name), "0")
    default = value not in ("", "0")
    result.add_argument(*_names(flag), action="store_true", default=default, help=flag.help)


def _add_option(result: argparse.ArgumentParser, option: Option, environment: Mapping[str, str]) -> None:
    default = environment.get(_variable(option.name), option.default) if option.variable else option.default
    if option.choices and default not in (*option.choices, None):  # argparse checks no choices of a default
        result.error(f"{_variable(option.name)}={default}: one of {', '.join(option.choices)} is expected")
    # argparse converts a default that is a text, so the type holds for variables too
    result.add_argument(
        *_names(option),
        default=default,
        type=option.type,
        choices=option.choices or None,
        help=option.help,
    )
