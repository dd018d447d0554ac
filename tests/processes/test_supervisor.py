from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from supervisor_driver import SupervisorDriver, drive_supervisor, is_gone, python, wait_until

from windlass.backends.local.supervisor_start import start_supervisor

# A child that leaves its parent, session and group, prints its pid to the file it inherited, and stays alive.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {inside}
        print(os.getpid(), flush=True)
        {stay}
    os._exit(0)
os.wait()
"""
STAY = "os.close(1); os.close(2); import time; time.sleep(1000)"


def daemon(inside: str = "pass", stay: str = STAY, after: str = "") -> list[str]:
    return python(DAEMON.format(inside=inside, stay=stay) + after)


def printed_pid(supervisor: SupervisorDriver, rank: int = 0) -> int:
    return int(supervisor.printed(lambda text: text.endswith("\n"), rank))


def test_a_rank_without_output_leaves_no_files(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["true"], ["true"])
        assert supervisor.until("exit", rank=0)["code"] == 0
        assert supervisor.until("exit", rank=1)["code"] == 0
        supervisor.stop()
        supervisor.until("gone")
        folder = supervisor.paths.generation_logs("job-1", 1)  # shows a later supervisor that the gang was started
        assert list(supervisor.paths.logs.rglob("*")) == [folder.parent, folder]


def test_a_ranks_output_is_on_disk_before_its_end_is_reported(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["sh", "-c", "echo said; echo loudly >&2; exit 7"])
        assert supervisor.until("exit")["code"] == 7
        assert (supervisor.output(), supervisor.output(stream="err")) == ("said\n", "loudly\n")


def test_a_rank_killed_by_a_signal_is_reported_with_the_signal(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["sh", "-c", "kill -SEGV $$"])
        report = supervisor.until("exit")
        assert report["signal"] == signal.SIGSEGV
        assert "code" not in report


@pytest.mark.parametrize(
    ("command", "cwd", "code", "error"),
    [
        (["no-such-command"], "/", 127, [errno.ENOENT, "exec"]),
        (["/etc/passwd"], "/", 126, [errno.EACCES, "exec"]),
        (["true"], "/no/such/folder", 127, [errno.ENOENT, "chdir"]),
        (["true"], "/etc/passwd", 126, [errno.ENOTDIR, "chdir"]),
    ],
)
def test_a_rank_that_cannot_start_is_reported_with_the_error(
    state: Path, command: list[str], cwd: str, code: int, error: object
) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(command, cwd=cwd)
        report = supervisor.until("exit")
        assert (report["code"], report["error"]) == (code, error)


def test_a_rank_starts_with_a_session_limits_and_files_of_its_own(state: Path) -> None:
    look = """
import os, resource, signal, sys
print(os.getsid(0) == os.getpid() == os.getpgid(0), sorted(os.listdir("/proc/self/fd")), sys.stdin.read() == "")
print(resource.getrlimit(resource.RLIMIT_NOFILE))
print(os.getcwd(), os.environ["RANK"], os.environ["COLOUR"])
"""
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(python("pass"), python(look), cwd="/tmp", COLOUR="grün")
        supervisor.until("exit", rank=1, code=0)
        lines = supervisor.output(rank=1).splitlines()
        assert lines[0] == "True ['0', '1', '2', '3'] True"  # descriptor 3 is listdir's own
        assert lines[1] == str(resource.getrlimit(resource.RLIMIT_NOFILE))
        assert lines[2] == "/tmp 1 grün"


def test_a_rank_starts_without_ignored_or_blocked_signals(state: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with drive_supervisor(state) as supervisor:
            supervisor.spawn(["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"])
            supervisor.until("exit", code=0)
            masks = [int(line.split()[1], 16) for line in supervisor.output().splitlines()]
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert [mask & (1 << 31) - 1 for mask in masks] == [0, 0]  # 32 and 33 are the C library's own


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(state: Path) -> None:
    ignores_sigterm = python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(1e3)"
    )
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(ignores_sigterm)
        supervisor.printed()
        supervisor.stop(grace=50)
        assert supervisor.until("exit")["signal"] == signal.SIGKILL
        supervisor.until("gone")


def test_a_rank_may_use_its_grace(state: Path) -> None:
    saves = """
import os, signal
def save(*_): os.write(1, b"saved\\n"); os._exit(83)
signal.signal(15, save)
print("ready", flush=True)
while True: signal.pause()
"""
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(python(saves))
        supervisor.printed()
        supervisor.stop(grace=60_000)
        assert supervisor.until("exit")["code"] == 83
        supervisor.until("gone")
        assert supervisor.output() == "ready\nsaved\n"


def test_a_child_of_a_shell_keeps_its_grace_when_the_shell_has_died(state: Path) -> None:
    saves = "import signal, os; signal.signal(15, lambda *_: (os.write(1, b'saved\\n'), os._exit(0))); "
    child = saves + "print('ready', flush=True); [signal.pause() for _ in range(9)]"
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["sh", "-c", '"$@" & wait', "sh", *python(child)])
        supervisor.printed()
        supervisor.stop(grace=60_000)
        assert supervisor.until("exit")["signal"] == signal.SIGTERM
        supervisor.until("gone")
        assert supervisor.output() == "ready\nsaved\n"


def test_a_daemon_ends_with_its_gang(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon())
        pid = printed_pid(supervisor)
        supervisor.until("exit", code=0)
        assert not is_gone(pid)
        supervisor.stop()
        supervisor.until("gone")
        assert is_gone(pid)


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_grace(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon(inside="import signal; signal.signal(15, signal.SIG_IGN)"))
        pid = printed_pid(supervisor)
        supervisor.stop(grace=50)
        supervisor.until("gone")
        assert is_gone(pid)


def test_a_daemon_below_a_living_rank_is_signalled_and_killed_with_the_rank(state: Path) -> None:
    ignores_sigterm = "import signal; signal.signal(15, signal.SIG_IGN)"
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon(inside=ignores_sigterm, after=f"{ignores_sigterm}; import time; time.sleep(1000)"))
        pid = printed_pid(supervisor)
        supervisor.stop(grace=50)
        supervisor.until("gone")
        assert is_gone(pid)


def test_a_daemon_of_one_gang_is_left_alone_when_another_ends(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon(), job="keeps-1")
        pid = int(supervisor.printed(lambda text: text.endswith("\n"), job="keeps-1"))
        supervisor.spawn(["true"], job="ends-2")
        supervisor.stop("ends-2")
        supervisor.until("gone", job="ends-2")
        assert not is_gone(pid)
        supervisor.stop("keeps-1")
        supervisor.until("gone", job="keeps-1")
        assert is_gone(pid)


def test_a_daemon_without_environment_and_session_of_its_gang_ends_with_it(state: Path) -> None:
    stay = "os.execve('/bin/sh', ['sh', '-c', 'exec sleep 1000 >&- 2>&-'], {})"
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon(stay=stay))
        pid = printed_pid(supervisor)
        supervisor.stop()
        supervisor.until("gone")
        assert is_gone(pid)


def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_report(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon(stay="import time; time.sleep(1000)"))
        supervisor.until("exit", code=0)
        pid = printed_pid(supervisor)
        assert not is_gone(pid)
        supervisor.stop()
        supervisor.until("gone")


def test_ranks_that_fork_while_they_are_killed_leave_no_process(state: Path) -> None:
    breeds = """
import os, signal
signal.signal(15, signal.SIG_IGN); signal.signal(17, signal.SIG_IGN)
print("on", flush=True)
for _ in range(200000):
    if os.fork() == 0:
        os.setsid(); signal.pause(); os._exit(0)
    if _ > 60: signal.pause()
"""
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(python(breeds), python(breeds))
        supervisor.printed()
        supervisor.stop(grace=0)
        supervisor.until("gone")  # the fixture checks that no process is left


def test_a_gang_may_have_many_ranks(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(*[["sh", "-c", "echo $RANK"]] * 60)
        for rank in range(60):
            supervisor.until("exit", rank=rank, code=0)
        assert [supervisor.output(rank) for rank in range(60)] == [f"{rank}\n" for rank in range(60)]


def test_reports_are_repeated_until_they_are_acknowledged(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["true"])
        exit = supervisor.until("exit")
        supervisor.disconnect()
        supervisor.reports.clear()

        supervisor.connect()
        assert supervisor.until("exit") == exit
        supervisor.send(do="ack", seq=exit["seq"])
        supervisor.disconnect()
        supervisor.reports.clear()

        supervisor.connect()
        supervisor.stop()
        assert supervisor.until("gone")["seq"] == exit["seq"] + 1
        assert [report["report"] for report in supervisor.reports] == ["hello", "gone"]


def test_a_gang_outlives_its_controller_and_the_next_one_is_informed_of_it(state: Path) -> None:
    with drive_supervisor(state, linger=None) as supervisor:
        supervisor.spawn(["sleep", "1000"])
        pid = supervisor.pid()
        first = supervisor.supervisor
        supervisor.disconnect()
        supervisor.connect()
        assert supervisor.supervisor == first
        assert supervisor.hello["gangs"] == [["job-1", 1]]
        assert not is_gone(pid)


def test_all_processes_end_after_the_timeout_without_a_controller(state: Path) -> None:
    supervisor = SupervisorDriver(state, linger=0.05)
    supervisor.linger = 0.05
    supervisor.spawn(daemon(after="import time; time.sleep(1000)"))
    pids = [supervisor.pid(), printed_pid(supervisor), supervisor.supervisor, supervisor.watchdog]
    supervisor.disconnect()
    os.waitpid(supervisor.watchdog, 0)
    assert all(is_gone(pid) for pid in pids)
    assert not supervisor.paths.supervisor_socket.exists()
    supervisor.held.release()


def test_a_gang_without_a_controller_lives_as_long_as_its_client(state: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as client:  # one that takes long to become the controller
        supervisor = SupervisorDriver(state, linger=0.05)
        supervisor.spawn(["sleep", "1000"], owner=client.pid)
        pid = supervisor.pid()
        first = supervisor.supervisor
        supervisor.disconnect()
        time.sleep(0.5)
        supervisor.connect()
        assert (supervisor.supervisor, supervisor.hello["gangs"]) == (first, [["job-1", 1]])
        supervisor.disconnect()
        client.kill()
        client.wait()
        os.waitpid(supervisor.watchdog, 0)
        assert is_gone(pid)
        supervisor.held.release()


def test_a_gang_without_a_controller_does_not_outlive_its_own_client(state: Path) -> None:
    with drive_supervisor(state, linger=0.05) as supervisor, running_client() as first, running_client() as second:
        supervisor.spawn(["sleep", "1000"], owner=first.pid)
        supervisor.spawn(["sleep", "1000"], job="job-2", owner=second.pid)
        pids = [supervisor.pid(), supervisor.pid(job="job-2")]
        supervisor.disconnect()
        first.kill()
        first.wait()
        wait_until(lambda: is_gone(pids[0]), "the gang outlived its client")
        assert not is_gone(pids[1])
        supervisor.connect()
        supervisor.until("gone", job="job-1")


@contextmanager
def running_client() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as client:
        try:
            yield client
        finally:
            client.kill()


def test_a_controller_that_was_silent_for_long_gets_the_full_timeout(state: Path) -> None:
    with drive_supervisor(state, linger=0.05) as supervisor:
        first = supervisor.supervisor
        time.sleep(2.2)  # longer than it waits without one
        supervisor.disconnect()
        time.sleep(0.1)
        supervisor.connect()
        assert supervisor.supervisor == first


@pytest.mark.parametrize("victim", ["supervisor", "watchdog"])
def test_a_killed_supervisor_or_watchdog_leaves_no_process(state: Path, victim: str) -> None:
    supervisor = SupervisorDriver(state)
    supervisor.spawn(
        daemon(after="import time; time.sleep(1000)"), daemon(stay="os.execve('/bin/sleep', ['sleep', '1000'], {})")
    )
    pids = [
        supervisor.pid(0),
        supervisor.pid(1),
        printed_pid(supervisor, 0),
        printed_pid(supervisor, 1),
    ]
    os.kill(getattr(supervisor, victim), signal.SIGKILL)
    supervisor.receive_all()
    wait_until(lambda: all(is_gone(pid) for pid in [*pids, supervisor.supervisor]), "a process outlived the supervisor")
    os.waitpid(supervisor.watchdog, 0)
    supervisor.disconnect()
    supervisor.held.release()


def test_the_next_supervisor_cleans_up_when_supervisor_and_watchdog_were_killed_together(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(daemon())
        pid = printed_pid(supervisor)
        for victim in (supervisor.watchdog, supervisor.supervisor):
            os.kill(victim, signal.SIGSTOP)  # so that neither can clean up after the other
        for victim in (supervisor.watchdog, supervisor.supervisor):
            os.kill(victim, signal.SIGKILL)
        os.waitpid(supervisor.watchdog, 0)
        wait_until(lambda: is_gone(supervisor.supervisor), "the supervisor is still there")
        assert not is_gone(pid)
        supervisor.disconnect()
        supervisor.connect()
        assert is_gone(pid)
        assert supervisor.hello["gangs"] == []


def test_a_supervisor_that_hangs_is_replaced_by_another(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["sleep", "1000"])
        pid, hung = supervisor.pid(), (supervisor.watchdog, supervisor.supervisor)
        for process in hung:
            os.kill(process, signal.SIGSTOP)
        supervisor.disconnect()
        link = start_supervisor(supervisor.paths, fresh=True)
        link.socket.close()
        supervisor.connect()
        assert supervisor.supervisor not in hung
        assert is_gone(pid)
        os.waitpid(hung[0], 0)
        supervisor.watchdog = link.watchdog


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_may_not_send_messages(state: Path) -> None:
    with drive_supervisor(state) as supervisor:
        state.chmod(0o755)
        supervisor.paths.supervisor_socket.chmod(0o777)
        folder = os.open(state, os.O_PATH)
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(f"/proc/self/fd/{folder}/supervisor.sock")
                os._exit(0 if other.recv(100) == b"" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(folder)
        supervisor.spawn(["true"])
        supervisor.until("exit", code=0)


def test_output_is_rotated_and_the_oldest_part_removed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_LOG_PART", "1000")
    monkeypatch.setenv("WINDLASS_LOG_PARTS", "3")
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(python("for i in range(450): print(f'{i:09}')"))
        supervisor.until("exit", code=0)
        folder = supervisor.paths.generation_logs("job-1", 1)
        names = {file.name: file.stat().st_size for file in folder.iterdir() if not file.name.endswith(".idx")}
        assert names == {"0.out.3": 1000, "0.out.4": 1000, "0.out": 500}
        kept = "".join((folder / name).read_text() for name in ("0.out.3", "0.out.4", "0.out"))
        assert kept == "".join(f"{i:09}\n" for i in range(200, 450))


def test_output_that_cannot_be_written_is_dropped_and_the_rank_continues(state: Path) -> None:
    prints = "import os; [os.write(1, b'x' * 50000) for _ in range(20)]; print('done', file=__import__('sys').stderr)"
    with drive_supervisor(state) as supervisor:
        folder = supervisor.paths.generation_logs("job-1", 1)
        folder.mkdir(parents=True)
        (folder / "0.out").symlink_to("/dev/full")
        supervisor.spawn(python(prints))
        supervisor.until("exit", code=0)
        lost = [report for report in supervisor.reports if report["report"] == "output lost"]
        assert [(report["rank"], report["stream"], report["error"]) for report in lost] == [
            (0, "out", os.strerror(errno.ENOSPC))
        ]
        assert supervisor.output(stream="err") == "done\n"


def test_output_that_can_be_written_again_states_the_lost_bytes(state: Path) -> None:
    prints = "import os\nfor word in (b'lost', b'kept'): os.write(1, word); os.read(0, 1)\n"
    with drive_supervisor(state) as supervisor:
        folder = supervisor.paths.generation_logs("job-1", 1)
        folder.mkdir(parents=True)
        (folder / "0.out").symlink_to("/dev/full")
        gate = state / "gate"
        os.mkfifo(gate)
        supervisor.spawn(["sh", "-c", f'exec "$@" < {gate}', "sh", *python(prints)])
        with gate.open("wb", buffering=0) as step:
            supervisor.until("output lost")
            (folder / "0.out").unlink()
            step.write(b"12")
            supervisor.until("exit", code=0)
        text = f"\n[windlass: 4 bytes of output were lost here: {os.strerror(errno.ENOSPC)}]\nkept"
        assert supervisor.output() == text


def test_paths_may_have_spaces_and_unicode_and_exceed_the_limit_of_sockets(tmp_path: Path) -> None:
    state = tmp_path / "ein Ordner mit Ümläuten und 空白" / ("lang" * 30)
    assert len(bytes(state)) > 108
    with drive_supervisor(state) as supervisor:
        supervisor.spawn(["printf", "%s", "größe 漢字 'quoted'"], job="job ü-1", cwd=str(tmp_path))
        supervisor.until("exit", code=0)
        assert supervisor.output(job="job ü-1") == "größe 漢字 'quoted'"
