"""Entry point of `windlass`: imports the module of the typed verb, runs it, and maps errors to exit codes."""

from __future__ import annotations

import keyword
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TextIO

os.environ.setdefault("TYPER_USE_RICH", "0")  # read when typer is imported: help and errors are plain text

import typer
from typer.core import TyperGroup

import windlass
from windlass.cli.exit_codes import ExitCode
from windlass.cli.package_clash import find_clash
from windlass.cli.terminal.escaped_stream import escaped_output
from windlass.cli.verb_table import SLURM_VERBS, VERBS

_BROKEN_PIPE = 128 + signal.SIGPIPE
_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Verbs(TyperGroup):
    """The group of all verbs; the module of a verb is imported when that verb is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        return load_verb(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the typed verb. Raises UsageError with the nearest known verb if it is unknown."""
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from windlass.cli.errors import UsageError  # noqa: PLC0415 - needed only after an error
            from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415

            hint = did_you_mean(args[0], VERBS)
            raise UsageError(f"there is no verb {args[0][:40]!r}{hint}\nwindlass --help lists them")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


def load_verb(verb: str) -> Any:
    """Imports the module of a verb and returns the verb as a click command or group."""
    family, text = VERBS[verb]
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_CONTEXT_SETTINGS)
    name = f"{verb}_" if keyword.iskeyword(verb) else verb
    found: Callable[..., Any] | typer.Typer = getattr(import_module(f"windlass.cli.verbs.{family}"), name)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    if hasattr(found, "get_help"):
        return found  # a click command that parses its own arguments
    app.command(verb, short_help=text)(found)
    return typer.main.get_command(app)


def _root() -> Any:
    app = typer.Typer(
        cls=_Verbs,
        name="windlass",
        help="Gang-scheduled, fault-tolerant distributed training. `windlass VERB --help` lists the options of a verb.",
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings=_CONTEXT_SETTINGS,
        subcommand_metavar="VERB [ARGS]...",
    )
    app.callback()(_no_verb)
    return typer.main.get_command(app)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"windlass {windlass.__version__}")
        raise typer.Exit


def _no_verb(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Run distributed training; all ranks of a job start together or not at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; raises nothing.

    Run as the program itself (no `arguments`), it ends with `os._exit`: Python's own shutdown of numpy and a hundred
    modules takes longer than most verbs.
    """
    clash = find_clash()
    if clash is not None:
        print(f"windlass: {clash.text}", file=sys.stderr)
    with escaped_output():
        code = ExitCode.USAGE if clash and clash.is_overwritten else _run(arguments)
    if arguments is None:
        os._exit(code)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    if "_WINDLASS_COMPLETE" in os.environ:
        _prepare_completion()
    try:
        code = _root().main(args=arguments, prog_name="windlass", standalone_mode=False)
    except BrokenPipeError:
        code = _BROKEN_PIPE
    except SystemExit as end:  # raised by typer after a write to a pipe without a reader
        code = _BROKEN_PIPE if isinstance(end.__context__, BrokenPipeError) else end.code
    except KeyboardInterrupt:
        code = ExitCode.CANCELLED
    except Exception as error:  # noqa: BLE001 - the last handler: the user never sees a traceback
        code = _print_error(error)
        words = sys.argv[1:] if arguments is None else arguments
        code = ExitCode.FAILED if words and words[0] in SLURM_VERBS else code
    if sessions := sys.modules.get("windlass.cli.kubernetes.api_session"):
        sessions.close_sessions()
    return _flush_output(code if isinstance(code, int) else ExitCode.OK)


def _prepare_completion() -> None:
    """Registers typer's completion classes for the shells; needed when a shell asks for completions."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415 - not exported by typer

    completion_init()


def _flush_output(code: int) -> int:
    """Flushes stdout and stderr; a stream without a reader is redirected to /dev/null, so Python's exit cannot fail.

    `windlass queue | head -1` is not an error. A run whose terminal was closed keeps its exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = _BROKEN_PIPE
            _discard(stream)
        except OSError:
            _discard(stream)
    return code


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(error: Exception) -> int:
    """Prints the error and its fix on stderr; returns the exit code."""
    from windlass.cli.errors import describe_error  # noqa: PLC0415 - needed only after an error

    text, code = describe_error(error)
    print(text if text.startswith("Usage:") else f"windlass: {text}", file=sys.stderr)
    return code
