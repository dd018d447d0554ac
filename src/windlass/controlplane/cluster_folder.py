"""The folder of a cluster in the background: the paths of its files, its facts, and the process that holds it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

_PREFIX = "windlass-"


class ClusterError(RuntimeError):
    """A cluster cannot be started or stopped. The text states the fix in its second line where there is one."""


@dataclass(frozen=True, slots=True)
class LastingSettings:
    """Settings of a cluster in the background."""

    real: bool | None = None
    """Whether its nodes run containers; None: where this machine allows it."""
    nodes: int = 2
    gpus: int = 2
    """Devices `nvidia.com/gpu` that each node announces, without having them."""
    images: Sequence[str] = ()
    """Names under which real nodes know their image, as manifests have them."""
    kueue: bool = False
    """Whether Kueue and the controller of JobSets run; their programs are built for eight minutes on two cores."""
    external_kinds: Sequence[str] = ()
    """Kinds of jobs whose Workloads others create for Kueue, such as "TrainingJob.v1alpha1.windlass.dev"."""
    companions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Commands by name that run beside the ready cluster and end with it, with $KUBECONFIG. One that ends restarts."""


@dataclass(frozen=True, slots=True)
class Running:
    """Facts of a cluster that is ready."""

    pid: int
    """The process that holds the cluster."""
    started: float
    """Time of the command, in seconds since 1970."""
    seconds: float
    """Duration of the start."""
    url: str
    nodes: Sequence[str]
    real: bool
    gpus: int
    kueue: bool
    host_address: str = ""
    """The address of this machine for pods of real nodes."""


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Paths below an absolute folder."""

    root: Path

    @property
    def lock(self) -> Path:
        """Locked by the process that holds the cluster, whose identity it contains."""
        return self.root / "lock"

    @property
    def settings(self) -> Path:
        """The settings for that process."""
        return self.root / "settings.json"

    @property
    def facts(self) -> Path:
        """Exists while the cluster is ready."""
        return self.root / "ready.json"

    @property
    def log(self) -> Path:
        """The steps of the start, and errors."""
        return self.root / "cluster.log"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def programs(self) -> Path:
        """A folder for PATH, with kubectl."""
        return self.root / "bin"

    @property
    def servers(self) -> Path:
        """A link to the folder with keys, logs and data of all servers."""
        return self.root / "servers"

    def make_servers(self) -> Path:
        """Makes that folder where its path is short: paths of sockets have at most 107 bytes."""
        place = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.servers.symlink_to(place)
        return place / "all"

    def companion_log(self, name: str) -> Path:
        """The output of a companion."""
        return self.root / f"{name}.log"

    def clear(self) -> bool:
        """Removes what a cluster has left, except logs. Returns whether there was something."""
        found = self.servers.is_symlink() or self.facts.exists()
        for file in (self.facts, self.kubeconfig, self.settings):
            file.unlink(missing_ok=True)
        if self.servers.is_symlink():
            place = self.servers.readlink()
            if (place.parent, place.name[: len(_PREFIX)]) == (Path(tempfile.gettempdir()), _PREFIX):
                shutil.rmtree(place, ignore_errors=True)
            self.servers.unlink()
        shutil.rmtree(self.programs, ignore_errors=True)
        return found


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file that others see whole or not at all, for this user only."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    temporary.replace(file)


def read_facts(folder: ClusterFolder) -> Running | None:
    """The facts of a ready cluster; None where there are none, or others than a cluster writes."""
    try:
        return msgspec.json.decode(folder.facts.read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def held(folder: ClusterFolder) -> Iterator[None]:
    """Holds the folder until the end of the block, or of this process. Raises ClusterError if another one does."""
    with folder.lock.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError("another process starts or holds this cluster") from None
        lock.truncate(0)
        lock.write(f"{os.getpid()} {start_ticks(os.getpid())}")
        lock.flush()
        yield


def holder(folder: ClusterFolder) -> int | None:
    """The process that holds the folder; None if there is none."""
    try:
        pid, ticks = map(int, folder.lock.read_text().split())
    except (OSError, ValueError):
        return None
    return pid if ticks and start_ticks(pid) == ticks else None


def start_ticks(pid: int) -> int:
    """The time of a living process's start, in ticks since boot; 0 if it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0
    return 0 if state in "ZX" else int(fields[18])
