"""Known fields of manifests: those of every kind that is submitted, down to the fields of pods.

Belongs here: names of fields, and finding unknown ones, without a cluster.
Does not belong here: valid values of fields (the readers of `windlass.jobs.kubernetes` check them).
Imports: the standard library and the rest of `windlass.jobs`. The tables are loaded by the first manifest.

Public names:
- `Validate`: the words of the option `--validate`
- `unknown_fields`: `unknown_fields(node)`, `unknown_below(node, shape, path)`
- `types`: `FieldType`, `known_types()`, `KINDS`
"""

from __future__ import annotations

from enum import StrEnum


class Validate(StrEnum):
    """A verb's option `--validate`."""

    STRICT = "strict"
    """The manifest is refused."""
    WARN = "warn"
    """A warning is printed, and the manifest is submitted."""
    IGNORE = "ignore"
    """No warning is printed."""
