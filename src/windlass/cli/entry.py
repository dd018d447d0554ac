"""Where `windlass` starts: find the verb, load its family, turn every error into one line and an exit code."""

from __future__ import annotations

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
from windlass.cli.verb_table import VERBS

_READER_LEFT = 128 + signal.SIGPIPE
_OPTIONS_ARE_OURS = {"help_option_names": ["-h", "--help"]}


class _Verbs(TyperGroup):
    """The group of all verbs; each is loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        return _load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed. Raises UsageError with the one that was probably meant."""
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from windlass.cli.errors import UsageError  # noqa: PLC0415 - only when something is wrong
            from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415

            hint = did_you_mean(args[0], VERBS)
            raise UsageError(f"there is no verb {args[0][:40]!r}{hint}\nwindlass --help lists them")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


def _load(verb: str) -> Any:
    family, text = VERBS[verb]
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_OPTIONS_ARE_OURS)
    found: Callable[..., Any] | typer.Typer = getattr(import_module(f"windlass.cli.verbs.{family}"), verb)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    if hasattr(found, "get_help"):
        return found  # a command already, which reads what is typed in its own way
    app.command(verb, short_help=text)(found)
    return typer.main.get_command(app)


def _root() -> Any:
    app = typer.Typer(
        cls=_Verbs,
        name="windlass",
        help="Gang-scheduled, fault-tolerant distributed training. `windlass VERB --help` says what a verb takes.",
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings=_OPTIONS_ARE_OURS,
    )
    app.callback()(_no_verb)
    return typer.main.get_command(app)


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"windlass {windlass.__version__}")
        raise typer.Exit


def _no_verb(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Run distributed training: one gang, whole or not at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Returns its exit code; nothing is raised.

    As the program itself (no `arguments`) it leaves at once: tidying up numpy and a hundred modules, only to end, takes
    Python longer than most verbs take to do their work.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names may hold any bytes
    if "_WINDLASS_COMPLETE" in os.environ:
        _get_ready_to_complete()
    try:
        code = _root().main(args=arguments, prog_name="windlass", standalone_mode=False)
    except BrokenPipeError:
        code = _READER_LEFT
    except KeyboardInterrupt:
        code = ExitCode.CANCELLED
    except Exception as trouble:  # noqa: BLE001 - the last net: no traceback reaches a person
        code = _tell(trouble)
    if clusters := sys.modules.get("windlass.cli.kubernetes.api_session"):
        clusters.close_sessions()
    code = _flushed(code if isinstance(code, int) else ExitCode.OK)
    if arguments is None:
        os._exit(code)
    return code


def _get_ready_to_complete() -> None:
    """A shell asks what may come next: typer has to know the shells."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415 - typer's own words

    completion_init()


def _flushed(code: int) -> int:
    """Write out what is left; where nobody reads on, see to it that Python does not try again at its exit.

    `windlass queue | head -1` is no error, and a run whose terminal has gone keeps the code it has.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = _READER_LEFT
            _send_to_nobody(stream)
        except OSError:
            _send_to_nobody(stream)
    return code


def _send_to_nobody(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _tell(trouble: Exception) -> int:
    """One error, its fix, and the exit code."""
    from windlass.cli.errors import describe_error  # noqa: PLC0415 - only when something is wrong

    text, code = describe_error(trouble)
    print(text if text.startswith("Usage:") else f"windlass: {text}", file=sys.stderr)
    return code
