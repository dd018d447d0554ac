"""Computes a merge patch (RFC 7386)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a patch that sets every field of `wanted`; fields that are only in `before` stay.

    Inside a field, entries that are no longer wanted are removed.
    """
    changed = {name: value for name, value in wanted.items() if before.get(name) != value}
    return {name: _patch_of(before.get(name), value) for name, value in changed.items()}


def _patch_of(before: Any, wanted: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    removed = dict.fromkeys(before.keys() - wanted.keys())
    return {**removed, **{name: _patch_of(before.get(name), value) for name, value in wanted.items()}}
