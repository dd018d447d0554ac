"""Verbs whose output has no reader any more: `windlass queue | head -1`."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from types import SimpleNamespace

import pytest
import typer

from windlass.cli import entry
from windlass.cli.terminal.screen import Screen


def test_a_write_to_a_closed_pipe_closes_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @app.command()
    def print_much() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    closed: list[bool] = []
    sessions = SimpleNamespace(close_sessions=lambda: closed.append(True))
    monkeypatch.setitem(sys.modules, "windlass.cli.kubernetes.api_session", sessions)
    monkeypatch.setattr(entry, "_root", lambda: typer.main.get_command(app))
    with pytest.MonkeyPatch.context() as streams:  # typer replaces them
        streams.setattr(sys, "stdout", sys.stdout)
        streams.setattr(sys, "stderr", sys.stderr)
        assert entry.main([]) == 128 + signal.SIGPIPE
    assert closed == [True]


def test_a_reader_that_has_left_is_noticed_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        screen = Screen(no_color=True)
        screen.check_reader()
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            screen.check_reader()


def test_an_output_that_is_no_pipe_has_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w") as stdout:  # noqa: PTH123 - a stream as the shell opens it
        monkeypatch.setattr(sys, "stdout", stdout)
        Screen(no_color=True).check_reader()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    Screen(no_color=True).check_reader()
