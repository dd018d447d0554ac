"""The folder of a notebook: the files by which its server and the command line agree."""

from __future__ import annotations

import html
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

MODULE = "windlass.jupyter.server"
"""Program of the gang's member: `python -m windlass.jupyter.server`."""
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_MAX_ADDRESS_BYTES = 4096
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")


@dataclass(frozen=True, slots=True)
class NotebookFolder:
    """The folder of one notebook; only its owner may read it."""

    path: Path

    @property
    def token(self) -> Path:
        """File with the token that opens the notebook; each start of the server writes a new one."""
        return self.path / "token"

    @property
    def address(self) -> Path:
        """File with the port of the server."""
        return self.path / "address.json"

    @property
    def workspace(self) -> Path:
        """Folder with the user's files."""
        return self.path / "workspace"

    @property
    def checkpoints(self) -> Path:
        """Folder with checkpoints of the workspace."""
        return self.path / "checkpoints"

    @property
    def runtime(self) -> Path:
        """Folder in which Jupyter keeps the keys and sockets of its kernels."""
        return self.path / "runtime"

    def prepare(self) -> None:
        """Makes the folder, readable only by its owner."""
        self.path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.path.chmod(_PRIVATE_FOLDER)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Port of a server, and the job and attempt that started it; "" once the server has ended."""

    job: str
    attempt: int
    port: int


def new_token(folder: NotebookFolder) -> str:
    """Writes a new token into the folder and returns it."""
    token = secrets.token_urlsafe(32)
    _write_private(folder.token, token)
    return token


def read_token(file: Path) -> str:
    """Returns the token in a file. Raises OSError without one."""
    return file.read_text().strip()


def write_address(folder: NotebookFolder, address: ServerAddress) -> None:
    """Publishes the address of a server that listens."""
    _write_private(folder.address, json.dumps(asdict(address)))


def is_token(text: str) -> bool:
    """Whether a text has the form of a token: it needs no escapes in an address."""
    return _TOKEN.fullmatch(text) is not None


def read_address(folder: NotebookFolder) -> ServerAddress | None:
    """Returns the address of the server; None if there is none, or if the file holds anything else."""
    try:
        with folder.address.open("rb") as file:
            found = json.loads(file.read(_MAX_ADDRESS_BYTES))
    except (OSError, ValueError):
        return None
    match found:
        case {"job": str(job), "attempt": int(attempt), "port": int(port)} if 0 < port < 1 << 16:
            return ServerAddress(job, attempt, port)
    return None


def page_of(port: int, token: str) -> str:
    """Returns the address for a browser on this machine."""
    return f"http://127.0.0.1:{port}/?token={token}"


def write_redirect(path: Path, page: str) -> None:
    """Writes a private page that leads to `page`: a browser that opens it has no token in its command line."""
    url = html.escape(page)
    _write_private(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><title>Windlass</title>')


def _write_private(path: Path, text: str) -> None:
    """Replaces a file by one that only its owner may read."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    partial.replace(path)
