"""The names of everything in a state folder, and the folder itself."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from windlass.backends.errors import BackendError
from windlass.backends.local.folder_access import check_access

_ADDRESS_LIMIT = 107
"""Maximum length in bytes of the path of a unix socket (sun_path without its terminator)."""


@dataclass(frozen=True, slots=True)
class StatePaths:
    """A state folder, by its absolute path."""

    root: Path

    @property
    def lock(self) -> Path:
        """The controller's lock; it contains the identity of its holder."""
        return self.root / "lock"

    @property
    def database(self) -> Path:
        """Jobs, their history and their ranks."""
        return self.root / "windlass.db"

    @property
    def commit_count(self) -> Path:
        """Number of commits to the database."""
        return self.root / "commits"

    @property
    def supervisor_socket(self) -> Path:
        """Socket on which a supervisor accepts the controller."""
        return self.root / "supervisor.sock"

    @property
    def supervisor_log(self) -> Path:
        """The supervisor's own errors; empty without any."""
        return self.root / "supervisor.log"

    @property
    def logs(self) -> Path:
        """Output of all ranks."""
        return self.root / "logs"

    def job_logs(self, job_id: str) -> Path:
        """Returns the folder with the output of one job's ranks."""
        return self.logs / job_id

    def generation_logs(self, job_id: str, generation: int) -> Path:
        """Returns the folder of one generation's output, laid out as `supervisor.log_files` describes."""
        return self.logs / job_id / str(generation)


def prepare_folder(root: Path) -> StatePaths:
    """Creates the folder if needed, mode 0700. Raises BackendError if it cannot be written or others can reach it."""
    try:
        _make_folders(root)
        check_access(root)
        if not os.access(root, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise BackendError(
            f"state folder {root}: {error.strerror}; make it writable, or name another one in WINDLASS_STATE"
        ) from error
    return StatePaths(root.absolute())


def _make_folders(root: Path) -> None:
    """Creates a folder and those above it, all with mode 0700."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    if not root.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def create_file(path: Path) -> None:
    """Creates a file if there is none; it becomes accessible to this user only. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def state_id(paths: StatePaths) -> str:
    """Returns the mark of every process started for this folder: drawn once, when the folder is first used."""
    with suppress(FileNotFoundError):
        found = (paths.root / "id").read_text(errors="replace").strip()
        if re.fullmatch("[0-9a-f]{16}", found):
            return found
    new_id = os.urandom(8).hex()
    write_state_id(paths, new_id)
    return new_id


def write_state_id(paths: StatePaths, new_id: str) -> None:
    """Replaces the folder's mark. Raises BackendError."""
    file = paths.root / "id"
    temporary = file.with_suffix(".new")
    try:
        create_file(temporary)
        temporary.write_text(new_id)
        temporary.replace(file)
    except OSError as error:
        raise BackendError(f"state folder {paths.root}: {error.strerror}") from error


def socket_address(path: Path) -> tuple[str, int | None]:
    """Returns a socket address for a path of any length, and a descriptor to close once it is bound or connected."""
    if len(os.fsencode(path)) <= _ADDRESS_LIMIT:
        return str(path), None
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{folder}/{path.name}", folder
