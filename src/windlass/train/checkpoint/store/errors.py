"""What goes wrong with checkpoints.

- CheckpointError: the text says what to do. On many ranks it is raised on all of them, with the same text.
    - PlaceError: the place cannot be reached, read or written
    - ManifestError: a manifest that does not agree with itself, or is of another format
    - DamagedError: there are checkpoints, and none of them is whole
    - OtherModelError: a checkpoint of another model
"""

from __future__ import annotations


class CheckpointError(Exception):
    """Something about checkpoints that a person has to look at; the text says what to do."""


class PlaceError(CheckpointError):
    """The place cannot be used: not there, no rights, full, or not answering."""


class ManifestError(CheckpointError):
    """Not a manifest, one that was changed after it was written, or one of a newer Windlass."""


class DamagedError(CheckpointError):
    """Checkpoints are there, and every one of them is damaged."""


class OtherModelError(CheckpointError):
    """Names or shapes of tensors are not those of the model that is to be loaded."""
