"""A Slurm of its own for tests: munged, slurmctld and two slurmd in one folder, on ports of their own.

The nodes n1 and n2 are this machine (`slurmd -N`), their names resolve nowhere, and each has two GPUs, in fact
/dev/null and /dev/zero. There is no accounting. The daemons run as the present user.
A requeued job starts after five seconds: Slurm waits for as long as a credential is valid, by default two minutes.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from windlass.backends.local.supervisor import proc

TIMEOUT_S = 60.0
"""Timeout in seconds of waits for Slurm: it schedules every few seconds, and the machine may be busy."""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_CONF = """\
ClusterName=windlass
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort={controller_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerParameters=sched_interval=2,sched_min_interval=0,bf_interval=2,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
FirstJobId={first_job}
MinJobAge=300
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first_port} CPUs=4 RealMemory=4000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second_port} CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """A running Slurm."""

    nodes = ("n1", "n2")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """The present environment with the configuration of this Slurm."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *words: str, cwd: Path | None = None) -> str:
        """Returns the output of a command of Slurm."""
        done = subprocess.run(
            words, env=self.environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """Returns the fields of a job as `scontrol show job` prints them."""
        text = self.call("scontrol", "show", "job", "-o", number)
        return {key: value for key, _, value in (word.partition("=") for word in text.split())}

    def wait_for(self, condition: Callable[[], bool], timeout: float = TIMEOUT_S) -> None:
        """Waits until a condition holds; else fails with the logs of the daemons."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.1)

    def wait_for_state(self, number: str, *states: str, timeout: float = 200) -> dict[str, str]:
        """Waits until a job has one of these states, and returns its fields."""
        self.wait_for(lambda: self.job(number)["JobState"] in states, timeout)
        return self.job(number)

    def cancel_all(self) -> None:
        """Cancels every job and waits until the nodes are free."""
        self.call("scancel", "--quiet", "--user", getpass.getuser())
        self.wait_for(lambda: not self.call("squeue", "--noheader"))

    def logs(self) -> str:
        """Returns the ends of the logs of all daemons."""
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log")))

    def is_ready(self) -> bool:
        """Whether both nodes are idle."""
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%T"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        return done.stdout.split() == ["idle", "idle"]


def skip_without_slurm() -> None:
    """Skips the test where Slurm is not installed."""
    for program in _PROGRAMS:
        if _path_of(program) is None:
            pytest.skip(f"no {program}: apt-get install slurmctld slurmd slurm-client munge")


@contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A Slurm that ends with all its jobs when the block ends, and leaves neither processes nor files."""
    skip_without_slurm()
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short name: the path of a socket has at most 107 characters
    try:
        with ExitStack() as stack:
            cluster = SlurmCluster(folder)
            _write_files(folder)
            stack.callback(_kill_left_processes, folder)
            _start(stack, folder, "munged", _munge_words(folder))
            cluster.wait_for((folder / "munge.socket").exists)
            _start(stack, folder, "slurmctld", ["-D"])
            for node in cluster.nodes:
                _start(stack, folder, "slurmd", ["-D", "-N", node], name=f"slurmd-{node}")
            cluster.wait_for(cluster.is_ready)
            stack.callback(cluster.cancel_all)
            yield cluster
    finally:
        shutil.rmtree(folder)


def _write_files(folder: Path) -> None:
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    controller, first, second = _free_ports(3)
    # The rendezvous port of a job is made of its number: jobs of clusters side by side on one machine differ in it.
    text = _CONF.format(
        host=socket.gethostname(),
        user=getpass.getuser(),
        folder=folder,
        controller_port=controller,
        first_port=first,
        second_port=second,
        first_job=1 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("NodeName=n[1-2] Name=gpu File=/dev/null,/dev/zero\n")


def _munge_words(folder: Path) -> list[str]:
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
    return [
        "--foreground",
        "--force",
        "--num-threads=2",
        f"--seed-file={folder / 'munge.seed'}",
        *(f"--{option}={folder / name}" for option, name in files.items()),
    ]


def _start(stack: ExitStack, folder: Path, program: str, words: Sequence[str], name: str = "") -> None:
    """Starts a daemon in the foreground, which ends with the stack."""
    path = _path_of(program)
    assert path is not None
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / f"{name or program}.log").open("ab") as log:
        process = subprocess.Popen(
            [path, *words], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_left_processes(folder: Path) -> None:
    """Kills processes of this Slurm that its daemons have left: those with its configuration in their environment."""
    mark = str(folder / "slurm.conf").encode()
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()} - {os.getpid()}
    for pid in pids:
        if proc.environment(pid).get(b"SLURM_CONF") == mark:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _path_of(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]
