"""The accounting of a Slurm for tests: a slurmdbd and a MariaDB in the folder of the Slurm, without a network.

MariaDB starts from an empty folder and checks no rights: its socket is in a folder of this user alone. Of its system
tables it has the one of stored procedures, which slurmdbd needs; all of them together take three seconds.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from windlass.labs import lab_slurm

PACKAGES = "apt-get install slurmdbd mariadb-server"
ACCOUNT = "lab"
_SYSTEM_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")
_PROCEDURES = "CREATE TABLE IF NOT EXISTS proc ("
_READY_WITHIN_S = 60.0
_PAUSE_S = 0.05
_MARIADB = (
    "--no-defaults --skip-networking --skip-grant-tables --skip-log-bin --performance-schema=OFF"
    " --innodb-buffer-pool-size=8M --innodb-log-file-size=4M --innodb-log-buffer-size=2M --key-buffer-size=64K"
    " --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --innodb-lock-wait-timeout=900"
    " --aria-pagecache-buffer-size=1M --max-connections=20"
)
_SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={user}
StorageLoc=slurm_acct_db
"""
_STORAGE = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations
"""


_KEPT_LONG, _KEPT_SHORTLY = "MinJobAge=300", "MinJobAge=2"
"""Seconds after which the controller forgets an ended job."""


def skip_without_accounting() -> None:
    """Skips the test where the programs of the accounting are not installed."""
    for program in ("mariadbd", "slurmdbd"):
        if _path_of(program) is None:
            pytest.skip(f"no {program}: {PACKAGES}")


class Accounting:
    """The accounting of the Slurm in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_port()
        self._slurmdbd: subprocess.Popen[bytes] | None = None

    def write_files(self) -> None:
        """Writes the configuration of slurmdbd, and names it in that of Slurm, which forgets ended jobs soon."""
        values = {"folder": self._folder, "host": socket.gethostname(), "user": getpass.getuser(), "port": self._port}
        file = self._folder / "slurmdbd.conf"
        file.touch(mode=0o600)
        file.write_text(_SLURMDBD.format(**values))
        conf = self._folder / "slurm.conf"
        without = "AccountingStorageType=accounting_storage/none\n"
        text = conf.read_text()
        assert without in text
        assert _KEPT_LONG in text
        conf.write_text(text.replace(without, _STORAGE.format(**values)).replace(_KEPT_LONG, _KEPT_SHORTLY))

    def start(self, stack: ExitStack) -> None:
        """Starts both daemons, which end with the stack, and registers the cluster, an account and this user."""
        self._start_database(stack)
        stack.callback(self.stop_slurmdbd)
        self.start_slurmdbd()
        self._manage("add", "cluster", "windlass")
        self._manage("add", "account", ACCOUNT, "Cluster=windlass")
        self._manage("add", "user", getpass.getuser(), f"Account={ACCOUNT}")

    def _start_database(self, stack: ExitStack) -> None:
        """Starts MariaDB."""
        data, mariadb_socket = self._folder / "mariadb", self._folder / "mariadb.socket"
        data.mkdir(mode=0o700)
        table = next(line for line in _SYSTEM_TABLES.read_text().splitlines() if line.startswith(_PROCEDURES))
        first_statements = self._folder / "mariadb.sql"
        first_statements.write_text(f"CREATE DATABASE mysql;\nUSE mysql;\n{table}\n")
        options = [
            f"--datadir={data}",
            f"--init-file={first_statements}",
            f"--socket={mariadb_socket}",
            f"--pid-file={data}/pid",
            f"--tmpdir={data}",
        ]
        process = self._popen("mariadbd", *_MARIADB.split(), *options, f"--user={getpass.getuser()}")
        stack.callback(end_process, process)
        self._wait(mariadb_socket.exists, process)

    def start_slurmdbd(self) -> None:
        """Starts slurmdbd and waits until it answers."""
        process = self._popen("slurmdbd", "-D")
        self._slurmdbd = process
        self._wait(self._answers, process)

    def stop_slurmdbd(self) -> None:
        """Ends slurmdbd; the database goes on."""
        if self._slurmdbd is not None:
            end_process(self._slurmdbd)
            self._slurmdbd = None

    def _answers(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self._port)) == 0

    def _manage(self, *words: str) -> None:
        command = ["sacctmgr", "--immediate", "--quiet", *words]
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False, timeout=_READY_WITHIN_S
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"

    def _popen(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        path = _path_of(program)
        assert path is not None
        with (self._folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [path, *words],
                env=self._environment(),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        own = {"SLURM_CONF": str(self._folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(self._folder / "mariadb.socket")}
        return {**os.environ, **own}

    def _wait(self, is_done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _READY_WITHIN_S
        while not is_done():
            assert process.poll() is None, lab_slurm.read_logs(self._folder)
            assert time.monotonic() < until, lab_slurm.read_logs(self._folder)
            time.sleep(_PAUSE_S)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a daemon by SIGTERM, else by SIGKILL."""
    process.terminate()
    try:
        process.wait(_READY_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _path_of(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
