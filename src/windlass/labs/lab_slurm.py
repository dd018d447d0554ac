"""A Slurm of one folder for labs and tests: munged, slurmctld and two slurmd, on ports of their own.

`python -m windlass.labs.lab_slurm FOLDER` starts it in the background. The nodes n1 and n2 are this machine
(`slurmd -N`), their names resolve nowhere, and each has two GPUs, in fact /dev/null and /dev/zero. Ended jobs are lines
of `jobs.txt` in the folder, which `sacct --completion` reads. The daemons run as the present user. A reset of the lab
ends them, because they have its variables and name one of its files.
A requeued job starts after five seconds: Slurm waits for as long as a credential is valid, by default two minutes.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from windlass.labs.errors import LabError

NODES = ("n1", "n2")
READY_WITHIN_S = 60.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
PACKAGES = "apt-get install slurmctld slurmd slurm-client munge"
_PAUSE_S = 0.1
_LONGEST_SOCKET = 100
"""Characters of a socket's path; the kernel takes 107."""
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
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
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


def missing_program() -> str:
    """Returns the first program of Slurm that this machine lacks; "" if it has all."""
    return next((program for program in PROGRAMS if _path_of(program) is None), "")


def write_files(folder: Path, first_job: int = 1) -> None:
    """Writes the configuration and the key of a Slurm into its folder."""
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    controller, first, second = _free_ports(3)
    text = _CONF.format(
        host=socket.gethostname(),
        user=getpass.getuser(),
        folder=folder,
        controller_port=controller,
        first_port=first,
        second_port=second,
        first_job=first_job,
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("NodeName=n[1-2] Name=gpu File=/dev/null,/dev/zero\n")


def start_daemons(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the daemons in their order, and yields each of them. Raises LabError if munged does not start."""
    yield _start(folder, "munged", *_munge_words(folder))
    _wait((folder / "munge.socket").exists, folder)
    conf = str(folder / "slurm.conf")
    yield _start(folder, "slurmctld", "-D", "-f", conf)
    for node in NODES:
        yield _start(folder, "slurmd", "-D", "-f", conf, "-N", node, name=f"slurmd-{node}")


def wait_until_ready(folder: Path) -> None:
    """Waits until both nodes are idle. Raises LabError with the ends of the logs."""
    _wait(lambda: _node_states(folder) == ["idle"] * len(NODES), folder)


def read_logs(folder: Path) -> str:
    """Returns the ends of the logs of all daemons."""
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in sorted(folder.glob("*.log")))


def main(folder: Path) -> None:
    """Starts a Slurm in the background and waits until it takes jobs. Raises LabError."""
    if program := missing_program():
        raise LabError(f"this lab needs {program}\n{PACKAGES}")
    if len(str(folder / "munge.socket")) > _LONGEST_SOCKET:
        raise LabError(f"{folder} is too long a path for a socket\nset WINDLASS_LABS to a shorter one")
    folder.mkdir(mode=0o700)
    write_files(folder)
    list(start_daemons(folder))
    wait_until_ready(folder)


def _munge_words(folder: Path) -> list[str]:
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    return ["--foreground", "--force", "--num-threads=2", f"--seed-file={folder / 'munge.seed'}", *options]


def _start(folder: Path, program: str, *words: str, name: str = "") -> subprocess.Popen[bytes]:
    """Starts a daemon in the foreground and in a session of its own."""
    path = _path_of(program)
    assert path is not None  # noqa: S101 - checked before
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / f"{name or program}.log").open("ab") as log:
        return subprocess.Popen(
            [path, *words],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _node_states(folder: Path) -> list[str]:
    words = ["sinfo", "--noheader", "--Node", "--format=%T"]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=READY_WITHIN_S)
    return done.stdout.split()


def _wait(is_done: Callable[[], bool], folder: Path) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while not is_done():
        if time.monotonic() > until:
            raise LabError(f"Slurm does not start in {READY_WITHIN_S:g} s; its logs:\n{read_logs(folder)}")
        time.sleep(_PAUSE_S)


def _path_of(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).absolute())
    except LabError as error:
        sys.exit(str(error))
