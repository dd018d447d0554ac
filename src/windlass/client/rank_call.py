"""Program of the ranks of a function's job: `python -m windlass.client.rank_call`. Standard library only.

Reads the call from the environment, runs the function, and prints the result on rank 0. An exception of the function
ends the rank as in any script: with its traceback and exit code 1.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.client.function_call import CALL, RESULT_KEY, FunctionCall, call_in, result_lines
from windlass.client.job_function import JobFunction
from windlass.client.plain_values import PlainValueError

_SHIPPED = "windlass_shipped_function"


def main() -> None:
    """Runs the function of `WINDLASS_CALL`."""
    call = _read_call()
    # 1. The working folder comes first on the import path, as for a script of it.
    sys.path.insert(0, str(Path.cwd()))
    # 2. Every rank runs the function.
    value = load_function(call)(*call.args, **call.kwargs)
    # 3. Rank 0 returns the result.
    if os.environ.get("RANK", "0") == "0":
        _print_result(call, value)


def load_function(call: FunctionCall) -> Callable[..., Any]:
    """The function that a call names, without its decorator."""
    found: Any = _module(call)
    for name in call.function.split("."):
        found = getattr(found, name)
    return found.function if isinstance(found, JobFunction) else found


def _module(call: FunctionCall) -> ModuleType:
    if call.module:
        return importlib.import_module(call.module)
    if call.file:
        return _module_of_file(Path(call.file))
    module = ModuleType(_SHIPPED)
    sys.modules[_SHIPPED] = module
    exec(compile(call.source, f"<{call.function}>", "exec"), module.__dict__)  # noqa: S102 - the user's own function
    return module


def _module_of_file(path: Path) -> ModuleType:
    """The module of a script, executed under its own name, so that `if __name__ == "__main__"` does not hold."""
    spec = importlib.util.spec_from_file_location(_SHIPPED, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_SHIPPED] = module
    spec.loader.exec_module(module)
    return module


def _read_call() -> FunctionCall:
    try:
        call = call_in(os.environ)
    except PlainValueError as error:
        sys.exit(f"{CALL}: {error}\nsubmit the job again with the same version of windlass")
    if call is None:
        sys.exit(f"{CALL} is not set: this program runs in jobs of functions\nsubmit one with @windlass.job")
    return call


def _print_result(call: FunctionCall, value: object) -> None:
    try:
        lines = result_lines(value, os.environ.get(RESULT_KEY, ""))
    except PlainValueError as error:
        sys.exit(
            f"the result of {call.function} cannot be returned: {error}\n"
            "return numbers, texts, lists and dicts; save anything else to a file and return its path"
        )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
