"""The errors of checkpoints.

- CheckpointError: the text says what to do. On many ranks it is raised on all of them, with the same text.
    - StorageError: the storage cannot be reached, read or written at the moment
        - StorageUnusableError: it stays unusable until a person changes something
            - LeaseHeldError: another run writes checkpoints there
            - LeaseLostError: another run has taken the lease of this one
    - CheckpointManifestError: a manifest that contradicts itself, or is of another format
        - NewerFormatError: one of a newer Windlass
    - DamagedError: there are checkpoints, and none of them is complete
    - ModelMismatchError: a checkpoint of another model
    - OptionError: an invalid option
    - RankGoneError: another rank has ended, so no collective is possible
"""

from __future__ import annotations


class CheckpointError(Exception):
    """An error of checkpoints that needs attention; the text says what to do."""


class StorageError(CheckpointError):
    """The storage cannot be used: full, not answering, or one of the subclasses."""


class StorageUnusableError(StorageError):
    """The storage stays unusable on every retry: no such bucket, no permission, another run's."""


class LeaseHeldError(StorageUnusableError):
    """Another run holds the lease of the storage: two runs would remove each other's checkpoints."""


class LeaseLostError(StorageUnusableError):
    """Another run, or a later start of this one, has taken the lease: this run must write no more."""


class CheckpointManifestError(CheckpointError):
    """No manifest, or one that was altered after it was written."""


class NewerFormatError(CheckpointManifestError):
    """A manifest of a newer Windlass: its checkpoint is not damaged, and must be neither passed over nor removed."""


class DamagedError(CheckpointError):
    """Checkpoints exist, and every one of them is damaged."""


class ModelMismatchError(CheckpointError):
    """Names or shapes of tensors differ from those of the model to load."""


class OptionError(CheckpointError):
    """An invalid option; the text says what to write."""


class RankGoneError(CheckpointError):
    """A rank has ended or is silent: the others cannot continue without it."""


def is_retryable(error: CheckpointError) -> bool:
    """Whether the same operation may succeed later without intervention."""
    final = StorageUnusableError | DamagedError | ModelMismatchError | NewerFormatError | OptionError
    return not isinstance(error, final)
