"""Runs a script or a module as `__main__`, as `python script.py` and `python -m module` do."""

from __future__ import annotations

import importlib.machinery
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence

from windlass.agent import error_file


def run(words: Sequence[str], *, module: bool) -> None:
    """Runs the script or module `words[0]` with the other words as its arguments. Errors end it as under `python`.

    Raises SystemExit where the script does, and after an error of the script, which is printed before.
    """
    if not module and not os.path.exists(words[0]):
        sys.stderr.write(f"windlass agent: there is no script {os.path.abspath(words[0])}\n")
        sys.exit(2)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv[:] = words
    try:
        if module:
            _run_module(words[0])
        elif os.path.isfile(words[0]) and not words[0].endswith((".pyz", ".zip")):
            _run_file(words[0], main)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as left:
        error_file.write_error(left)
        raise
    except BaseException as error:  # noqa: BLE001 - every error is reported as Python reports it
        error.__traceback__ = _strip_frames(error.__traceback__)
        error_file.write_error(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _run_module(name: str) -> None:
    _prepend_path(os.getcwd())
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # noqa: SLF001 - what `python -m` itself calls


def _run_file(path: str, main: types.ModuleType) -> None:
    _prepend_path(os.path.dirname(os.path.realpath(path)))
    full = os.path.abspath(path)
    main.__file__ = full
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    main.__dict__["__builtins__"] = __builtins__
    with io.open_code(full) as file:
        text = file.read()
    exec(compile(text, full, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - this is how Python runs a script


def _prepend_path(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # python -P, from 3.11
        sys.path.insert(0, folder)


def _strip_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames of this module and of runpy."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace
