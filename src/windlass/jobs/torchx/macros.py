"""Macros of TorchX in arguments and variables of a role: those that a start decides become variables of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from string import Template

from windlass import wire

_OF_START = {"app_id": wire.JOB_ID, "replica_id": wire.REPLICA}
"""Macro → variable that has its value in the process."""
_MARK = re.compile("\0([a-z_]+)\0")
_VALUES = {
    **{name: f"\0{name}\0" for name in _OF_START},
    "rank0_env": "MASTER_ADDR",
    "img_root": "",
    "base_img_root": "",
}


def command_of(words: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The words of the command and the variables, with macros replaced; a shell replaces those of a start."""
    replaced = [_substitute(word) for word in words]
    values = {name: _substitute(value) for name, value in env.items()}
    late = {name: value for name, value in values.items() if _MARK.search(value)}
    fixed = {name: value for name, value in values.items() if name not in late}
    if not late and not any(_MARK.search(word) for word in replaced):
        return replaced, fixed
    exports = "".join(f"export {name}={_shell_word(value)}\n" for name, value in late.items())
    return ["sh", "-c", f"{exports}exec {' '.join(map(_shell_word, replaced))}"], fixed


def _substitute(text: str) -> str:
    return Template(text.replace("\0", "")).safe_substitute(_VALUES)


def _shell_word(text: str) -> str:
    """A word for the shell: literal parts quoted, macros as variables."""
    parts = _MARK.split(text)
    written = [f'"${_OF_START[part]}"' if n % 2 else part and shlex.quote(part) for n, part in enumerate(parts)]
    return "".join(written) or "''"
