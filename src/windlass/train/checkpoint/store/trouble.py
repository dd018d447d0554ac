"""Errors of operating systems and object stores in words, with what to do about them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.train.checkpoint.store.errors import PlaceError, UnusableError

_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_STAYING = (errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
_FIXES = {
    errno.EROFS: "it is mounted read-only: name another place",
    errno.ENOTDIR: "part of its path is a file: name another place",
    errno.EIO: "the disk reports an error: see the kernel's log (dmesg), and name another place",
    errno.ESTALE: "the server of this filesystem has lost it: mount it again",
    errno.EREMOTEIO: "the store answers with errors of its own; it was tried again for a while. Try later",
    errno.EBUSY: "the store asks to slow down; it was tried again for a while. Try later",
}


@contextmanager
def told(place: str, doing: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a PlaceError: where, at what, why, and the fix."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and not _of_a_store(error):
            raise
        kind = UnusableError if _stays(error) else PlaceError
        raise kind(f"{place}: {doing}: {reason(error)}\n{fix(error)}") from error


def reason(error: Exception) -> str:
    """The system's own words, on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


def fix(error: Exception) -> str:
    """What a person can do about it."""
    code = error.errno if isinstance(error, OSError) else None
    name = type(error).__name__
    if code in _FULL:
        return "it is full: free some space, or keep fewer checkpoints (windlass checkpoint prune PLACE --keep 1)"
    if "Credential" in name:
        return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)"
    if isinstance(error, PermissionError):
        return "this user may not do that: grant reading, writing, listing and deleting there, or name another place"
    if isinstance(error, FileNotFoundError):
        return "it is not there: make the bucket or the folder first, or correct its name"
    if isinstance(error, ConnectionError | TimeoutError) or "Connect" in name or "Timeout" in name:
        return "it does not answer: check the network and the address (AWS_ENDPOINT_URL)"
    return _FIXES.get(code or 0, "look at the place, or name another one")


def _stays(error: Exception) -> bool:
    """Whether it would be the same each time: a disk may be full for a while, rights do not come by waiting."""
    if isinstance(error, PermissionError | FileNotFoundError) or "Credential" in type(error).__name__:
        return True
    return isinstance(error, OSError) and error.errno in _STAYING


def _of_a_store(error: Exception) -> bool:
    """Raised by a client library: botocore's, aiohttp's, google's or azure's."""
    return type(error).__module__.partition(".")[0] in _LIBRARIES
