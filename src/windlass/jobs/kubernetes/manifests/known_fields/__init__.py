"""Which fields manifests have: those of every kind that is handed in, down to the last of a pod's.

Belongs here: names of fields, and finding those that no kind has. Nothing is asked of a cluster.
Does not belong here: what a field's value may be (the readers of `windlass.jobs.kubernetes` say that).
Imports: the standard library and the rest of `windlass.jobs`. The tables are loaded by the first manifest.

Public names:
- `Validate`: the words of the option `--validate`
- `unknown_fields`: `unknown_fields(node)`, `unknown_below(node, shape, path)`
- `types`: `Type`, `known_types()`, `KINDS`
"""

from __future__ import annotations

from enum import StrEnum


class Validate(StrEnum):
    """A verb's option `--validate`."""

    STRICT = "strict"
    """The manifest is refused."""
    WARN = "warn"
    """It is told, and the manifest is handed in."""
    IGNORE = "ignore"
    """Nothing is said."""
