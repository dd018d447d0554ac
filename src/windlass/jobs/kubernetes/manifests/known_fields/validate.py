"""What becomes of a field that no table has: the words are kubectl's."""

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
