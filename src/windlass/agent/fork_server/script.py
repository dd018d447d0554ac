"""Runs a script or a module as `__main__`, as `python script.py` and `python -m module` do.

With one difference: a failed script ends its process within a timeout, also where its threads wait for other ranks.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import io
import logging
import os
import runpy
import signal
import sys
import types
from collections.abc import Sequence

from windlass import wire
from windlass.agent import error_file

_INTERRUPTED = 130


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
    failed = _FailedEnd()
    atexit.register(failed.finish)  # before the script's own functions, so it runs after them
    try:
        try:
            _run_main(words[0], main, module=module)
        finally:
            _disarm_child_signals()
    except SystemExit as left:
        error_file.write_error(left)
        failed.begin(left)
        raise
    except BaseException as error:  # noqa: BLE001 - every error is reported as Python reports it
        error.__traceback__ = _strip_frames(error.__traceback__)
        error_file.write_error(error)
        sys.excepthook(type(error), error, error.__traceback__)
        failure = SystemExit(_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)
        failed.begin(failure)
        raise failure from None


def _run_main(word: str, main: types.ModuleType, *, module: bool) -> None:
    if module:
        _run_module(word)
    elif os.path.isfile(word) and not word.endswith((".pyz", ".zip")):
        _run_file(word, main)
    else:
        runpy.run_path(word, run_name="__main__")


def _disarm_child_signals() -> None:
    """Makes SIGCHLD without effect. A handler such as torch's DataLoader's raises for a killed worker.

    Within the report of an error that would cut off the report.
    """
    if callable(signal.getsignal(signal.SIGCHLD)):
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)


class _FailedEnd:
    """The end of a failed script: threads and exit functions have `wire.EXIT_TIMEOUT`, and no destructor runs.

    Both may wait for other ranks: a thread in a collective, or the destructor of a process group.
    """

    def __init__(self) -> None:
        self._code = 0

    def begin(self, left: SystemExit) -> None:
        """Starts the timeout, unless the code says that the script has left by intention."""
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if code not in (0, wire.RankExitCode.PREEMPTED):
            self._code = code
            wire.exit_after_timeout(code)

    def finish(self) -> None:
        """Ends the process of a failed script. Exit functions of modules that the fork server imported do not run."""
        if self._code:
            logging.shutdown()
            wire.end_process(self._code)


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
