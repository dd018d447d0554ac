"""The part of a client's environment that is kept after the end of its job, so that the job can run again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from windlass import wire
from windlass.jobs.secret_masks import mask_secrets
from windlass.jobs.secret_values import HIDDEN, is_secret_variable

_FURTHER_NAMES = re.compile("key|pwd|pass|cookie|signature|dsn|_pat$", re.IGNORECASE)
"""Further names that may be those of secrets. Here a value too many is only asked for again."""
_NEVER_SECRET = {"PWD", "OLDPWD", wire.CHECKPOINTS}


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with `HIDDEN` for each value that is a secret by its name or looks like one."""
    return {name: HIDDEN if _is_secret(name, value) else value for name, value in variables.items()}


def hidden_names(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the variables whose values were not kept."""
    return tuple(sorted(name for name, value in variables.items() if value == HIDDEN))


def with_secrets_of(variables: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The kept variables, with the hidden values as they are in `present`; those that it lacks are left out."""
    filled = {name: present.get(name) if value == HIDDEN else value for name, value in variables.items()}
    return {name: value for name, value in filled.items() if value is not None}


def _is_secret(name: str, value: str) -> bool:
    if name in _NEVER_SECRET:
        return False
    return is_secret_variable(name) or bool(_FURTHER_NAMES.search(name)) or mask_secrets(value) != value
