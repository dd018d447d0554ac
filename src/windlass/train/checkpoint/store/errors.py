"""What goes wrong with checkpoints.

- CheckpointError: the text says what to do. On many ranks it is raised on all of them, with the same text.
    - PlaceError: the place cannot be reached, read or written, for now
        - UnusableError: nor will it be, until a person has changed something
    - ManifestError: a manifest that does not agree with itself, or is of another format
    - DamagedError: there are checkpoints, and none of them is whole
    - OtherModelError: a checkpoint of another model
    - OptionError: what was asked for makes no sense
    - RankGoneError: another rank has ended, so nothing can be done together any more
"""

from __future__ import annotations


class CheckpointError(Exception):
    """Something about checkpoints that a person has to look at; the text says what to do."""


class PlaceError(CheckpointError):
    """The place cannot be used: full, not answering, or one of the kinds beneath."""


class UnusableError(PlaceError):
    """The place will not do however often it is tried: no such bucket, no rights, another run's."""


class ManifestError(CheckpointError):
    """Not a manifest, one that was changed after it was written, or one of a newer Windlass."""


class DamagedError(CheckpointError):
    """Checkpoints are there, and every one of them is damaged."""


class OtherModelError(CheckpointError):
    """Names or shapes of tensors are not those of the model that is to be loaded."""


class OptionError(CheckpointError):
    """An option that makes no sense; the text says what to write."""


class RankGoneError(CheckpointError):
    """A rank has ended, or says nothing any more: the others cannot go on without it."""


def may_pass(error: CheckpointError) -> bool:
    """Whether the same may go well at another time without anybody doing anything about it."""
    return not isinstance(error, UnusableError | DamagedError | OtherModelError | OptionError)
