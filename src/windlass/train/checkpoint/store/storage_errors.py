"""Translates errors of operating systems and object stores into messages with a remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.train.checkpoint.store.errors import StorageError, StorageUnusableError

_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure")
_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)
_PERMANENT_CODES = (errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
_FIXES = {
    errno.EROFS: "it is mounted read-only: use another location",
    errno.ENOTDIR: "part of its path is a file: use another location",
    errno.EIO: "the disk reports an error: see the kernel's log (dmesg), and use another location",
    errno.ESTALE: "the file server has lost the handle of it: mount it again",
    errno.EREMOTEIO: "the store fails with internal errors, also on retries: try later",
    errno.EBUSY: "the store limits the request rate, also on retries: try later",
}


@contextmanager
def translate_errors(location: str, doing: str) -> Iterator[None]:
    """Raise errors inside as StorageError, with location, action, reason and remedy."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and not _is_store_error(error):
            raise
        kind = StorageUnusableError if _is_permanent(error) else StorageError
        raise kind(f"{location}: {doing}: {error_reason(error)}\n{suggest_fix(error)}") from error


def error_reason(error: Exception) -> str:
    """Return the system's own text, on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


def suggest_fix(error: Exception) -> str:
    """Return what a person can do about the error."""
    code = error.errno if isinstance(error, OSError) else None
    name = type(error).__name__
    if code in _FULL_CODES:
        return "it is full: free some space, or keep fewer checkpoints (windlass checkpoint prune PLACE --keep 1)"
    if "Credential" in name:
        return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)"
    if isinstance(error, PermissionError):
        return "permission denied: grant reading, writing, listing and deleting there, or use another location"
    if isinstance(error, FileNotFoundError):
        return "it does not exist: create the bucket or the folder first, or correct its name"
    if isinstance(error, ConnectionError | TimeoutError) or "Connect" in name or "Timeout" in name:
        return "it does not answer: check the network and the address (AWS_ENDPOINT_URL)"
    return _FIXES.get(code or 0, "check the location, or use another one")


def _is_permanent(error: Exception) -> bool:
    """Whether a retry is pointless: a full disk may be freed, but permissions do not change by waiting."""
    if isinstance(error, PermissionError | FileNotFoundError) or "Credential" in type(error).__name__:
        return True
    return isinstance(error, OSError) and error.errno in _PERMANENT_CODES


def _is_store_error(error: Exception) -> bool:
    """Whether a client library raised the error: botocore, aiohttp, google or azure."""
    return type(error).__module__.partition(".")[0] in _LIBRARIES
