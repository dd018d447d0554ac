"""Checks that only this user can read or change a state folder, as ssh does with its files.

The folder belongs to this user and is closed to all others. Each folder above it belongs to this user or root, and no
other user may write there, except in a folder with the sticky bit such as /tmp, where names are safe from others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from windlass.backends.errors import BackendError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ANOTHER = "or name another one in WINDLASS_STATE"


def check_access(root: Path) -> None:
    """Raises BackendError, with the command that repairs it, if other users can reach the folder; OSError."""
    absolute = root.absolute()
    for path in (absolute, *absolute.parents):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) and not _is_trusted(found.st_uid):
            raise _access_error(root, f"{path} is a link of another user (uid {found.st_uid}); name your own folder")
    folder = Path(os.path.realpath(absolute))
    _check_folder(root, folder, folder.stat())
    for above in folder.parents:
        _check_above(root, above, above.stat())


def _check_folder(root: Path, folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        problem = f"it belongs to another user (uid {found.st_uid})"
        raise _access_error(root, f"{problem}; name your own in WINDLASS_STATE, or run this as that user")
    if found.st_mode & _OTHERS:
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        raise _access_error(root, f"other users can open it ({mode}): chmod 700 {folder}, {_ANOTHER}")


def _check_above(root: Path, above: Path, found: os.stat_result) -> None:
    if not _is_trusted(found.st_uid):
        raise _access_error(root, f"{above} above it belongs to another user (uid {found.st_uid}); {_ANOTHER[3:]}")
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writers and not found.st_mode & stat.S_ISVTX and not (writers == stat.S_IWGRP and _is_own_group(found.st_gid)):
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        raise _access_error(root, f"other users can write to {above} ({mode}): chmod go-w {above}, {_ANOTHER}")


def _is_trusted(uid: int) -> bool:
    """Whether an owner is this user or root. In a user namespace root may have no uid, and the kernel shows another."""
    return uid in (0, os.geteuid()) or (uid == _overflow_uid() and _is_in_user_namespace())


def _is_own_group(gid: int) -> bool:
    """Whether a group is this user's alone: systems with such groups let the group write to each new folder."""
    import grp  # noqa: PLC0415 - seldom needed
    import pwd  # noqa: PLC0415

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _overflow_uid() -> int:
    return int(Path("/proc/sys/kernel/overflowuid").read_text())


def _is_in_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def _access_error(root: Path, problem: str) -> BackendError:
    return BackendError(f"state folder {root}: {problem}")
