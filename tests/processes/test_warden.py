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
from hand import Hand, await_that, hand, is_gone, python

from windlass.backends.local.warden_start import start_warden

# A child that leaves its parent, session and group, says its pid through the file it inherited, and stays.
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


def a_process_prints_its_pid(warden: Hand, rank: int = 0) -> int:
    return int(warden.printed(lambda text: text.endswith("\n"), rank))


def test_a_rank_ends_well_and_leaves_no_files_if_it_said_nothing(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(["true"], ["true"])
        assert warden.until("exit", rank=0)["code"] == 0
        assert warden.until("exit", rank=1)["code"] == 0
        warden.stop()
        warden.until("gone")
        assert not warden.paths.logs.exists()


def test_what_a_rank_says_is_on_disk_before_its_end_is_told(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(["sh", "-c", "echo said; echo loudly >&2; exit 7"])
        assert warden.until("exit")["code"] == 7
        assert (warden.output(), warden.output(stream="err")) == ("said\n", "loudly\n")


def test_a_rank_killed_by_a_signal_says_which(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(["sh", "-c", "kill -SEGV $$"])
        report = warden.until("exit")
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
def test_a_rank_that_cannot_start_says_why(state: Path, command: list[str], cwd: str, code: int, error: object) -> None:
    with hand(state) as warden:
        warden.spawn(command, cwd=cwd)
        report = warden.until("exit")
        assert (report["code"], report["error"]) == (code, error)


def test_a_rank_starts_clean(state: Path) -> None:
    look = """
import os, resource, signal, sys
print(os.getsid(0) == os.getpid() == os.getpgid(0), sorted(os.listdir("/proc/self/fd")), sys.stdin.read() == "")
print(resource.getrlimit(resource.RLIMIT_NOFILE))
print(os.getcwd(), os.environ["RANK"], os.environ["COLOUR"])
"""
    with hand(state) as warden:
        warden.spawn(python("pass"), python(look), cwd="/tmp", COLOUR="grün")
        warden.until("exit", rank=1, code=0)
        lines = warden.output(rank=1).splitlines()
        assert lines[0] == "True ['0', '1', '2', '3'] True"  # descriptor 3 is listdir's own
        assert lines[1] == str(resource.getrlimit(resource.RLIMIT_NOFILE))
        assert lines[2] == "/tmp 1 grün"


def test_no_signal_is_ignored_or_blocked_at_the_start(state: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with hand(state) as warden:
            warden.spawn(["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"])
            warden.until("exit", code=0)
            masks = [int(line.split()[1], 16) for line in warden.output().splitlines()]
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert [mask & (1 << 31) - 1 for mask in masks] == [0, 0]  # 32 and 33 are the C library's own


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(state: Path) -> None:
    stubborn = python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1e3)"
    )
    with hand(state) as warden:
        warden.spawn(stubborn)
        warden.printed()
        warden.stop(grace=50)
        assert warden.until("exit")["signal"] == signal.SIGKILL
        warden.until("gone")


def test_a_rank_may_use_its_grace(state: Path) -> None:
    saves = """
import os, signal
def save(*_): os.write(1, b"saved\\n"); os._exit(83)
signal.signal(15, save)
print("ready", flush=True)
while True: signal.pause()
"""
    with hand(state) as warden:
        warden.spawn(python(saves))
        warden.printed()
        warden.stop(grace=60_000)
        assert warden.until("exit")["code"] == 83
        warden.until("gone")
        assert warden.output() == "ready\nsaved\n"


def test_a_child_of_a_shell_keeps_its_grace_when_the_shell_has_died(state: Path) -> None:
    saves = "import signal, os; signal.signal(15, lambda *_: (os.write(1, b'saved\\n'), os._exit(0))); "
    child = saves + "print('ready', flush=True); [signal.pause() for _ in range(9)]"
    with hand(state) as warden:
        warden.spawn(["sh", "-c", '"$@" & wait', "sh", *python(child)])
        warden.printed()
        warden.stop(grace=60_000)
        assert warden.until("exit")["signal"] == signal.SIGTERM
        warden.until("gone")
        assert warden.output() == "ready\nsaved\n"


def test_a_daemon_ends_with_its_gang(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(daemon())
        pid = a_process_prints_its_pid(warden)
        warden.until("exit", code=0)
        assert not is_gone(pid)
        warden.stop()
        warden.until("gone")
        assert is_gone(pid)


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_grace(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(daemon(inside="import signal; signal.signal(15, signal.SIG_IGN)"))
        pid = a_process_prints_its_pid(warden)
        warden.stop(grace=50)
        warden.until("gone")
        assert is_gone(pid)


def test_a_daemon_below_a_living_rank_is_asked_and_killed_with_it(state: Path) -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)"
    with hand(state) as warden:
        warden.spawn(daemon(inside=deaf, after=f"{deaf}; import time; time.sleep(1000)"))
        pid = a_process_prints_its_pid(warden)
        warden.stop(grace=50)
        warden.until("gone")
        assert is_gone(pid)


def test_a_daemon_of_one_gang_is_left_alone_when_another_ends(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(daemon(), job="keeps-1")
        pid = int(warden.printed(lambda text: text.endswith("\n"), job="keeps-1"))
        warden.spawn(["true"], job="ends-2")
        warden.stop("ends-2")
        warden.until("gone", job="ends-2")
        assert not is_gone(pid)
        warden.stop("keeps-1")
        warden.until("gone", job="keeps-1")
        assert is_gone(pid)


def test_a_daemon_that_hides_its_environment_and_session_ends_all_the_same(state: Path) -> None:
    stay = "os.execve('/bin/sh', ['sh', '-c', 'exec sleep 1000 >&- 2>&-'], {})"
    with hand(state) as warden:
        warden.spawn(daemon(stay=stay))
        pid = a_process_prints_its_pid(warden)
        warden.stop()
        warden.until("gone")
        assert is_gone(pid)


def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_report(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(daemon(stay="import time; time.sleep(1000)"))
        warden.until("exit", code=0)
        pid = a_process_prints_its_pid(warden)
        assert not is_gone(pid)
        warden.stop()
        warden.until("gone")


def test_many_ranks_fork_while_they_are_killed(state: Path) -> None:
    breeds = """
import os, signal
signal.signal(15, signal.SIG_IGN); signal.signal(17, signal.SIG_IGN)
print("on", flush=True)
for _ in range(200000):
    if os.fork() == 0:
        os.setsid(); signal.pause(); os._exit(0)
    if _ > 60: signal.pause()
"""
    with hand(state) as warden:
        warden.spawn(python(breeds), python(breeds))
        warden.printed()
        warden.stop(grace=0)
        warden.until("gone")  # and the fixture finds nobody left


def test_a_gang_of_many_ranks(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(*[["sh", "-c", "echo $RANK"]] * 60)
        for rank in range(60):
            warden.until("exit", rank=rank, code=0)
        assert [warden.output(rank) for rank in range(60)] == [f"{rank}\n" for rank in range(60)]


def test_reports_are_repeated_until_they_are_acknowledged(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(["true"])
        exit = warden.until("exit")
        warden.leave()
        warden.reports.clear()

        warden.connect()
        assert warden.until("exit") == exit
        warden.say(do="ack", seq=exit["seq"])
        warden.leave()
        warden.reports.clear()

        warden.connect()
        warden.stop()
        assert warden.until("gone")["seq"] == exit["seq"] + 1
        assert [report["tell"] for report in warden.reports] == ["hello", "gone"]


def test_a_gang_lives_on_without_a_controller_and_the_next_one_hears_of_it(state: Path) -> None:
    with hand(state, linger=None) as warden:
        warden.spawn(["sleep", "1000"])
        pid = warden.pid()
        first = warden.warden
        warden.leave()
        warden.connect()
        assert warden.warden == first
        assert warden.hello["gangs"] == [["job-1", 1]]
        assert not is_gone(pid)


def test_without_a_controller_for_too_long_everything_ends(state: Path) -> None:
    warden = Hand(state, linger=0.05)
    warden.linger = 0.05
    warden.spawn(daemon(after="import time; time.sleep(1000)"))
    pids = [warden.pid(), a_process_prints_its_pid(warden), warden.warden, warden.guard]
    warden.leave()
    os.waitpid(warden.guard, 0)
    assert all(is_gone(pid) for pid in pids)
    assert not warden.paths.warden_socket.exists()
    warden.held.release()


def test_without_a_controller_a_gang_lives_as_long_as_its_client(state: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as client:  # one that takes long to become the controller
        warden = Hand(state, linger=0.05)
        warden.spawn(["sleep", "1000"], owner=client.pid)
        pid = warden.pid()
        first = warden.warden
        warden.leave()
        time.sleep(0.5)
        warden.connect()
        assert (warden.warden, warden.hello["gangs"]) == (first, [["job-1", 1]])
        warden.leave()
        client.kill()
        client.wait()
        os.waitpid(warden.guard, 0)
        assert is_gone(pid)
        warden.held.release()


def test_without_a_controller_no_gang_outlives_its_own_client(state: Path) -> None:
    with hand(state, linger=0.05) as warden, a_client() as first, a_client() as second:
        warden.spawn(["sleep", "1000"], owner=first.pid)
        warden.spawn(["sleep", "1000"], job="job-2", owner=second.pid)
        pids = [warden.pid(), warden.pid(job="job-2")]
        warden.leave()
        first.kill()
        first.wait()
        await_that(lambda: is_gone(pids[0]), "it outlived its client")
        assert not is_gone(pids[1])
        warden.connect()
        warden.until("gone", job="job-1")


@contextmanager
def a_client() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as client:
        try:
            yield client
        finally:
            client.kill()


def test_a_controller_that_was_silent_for_long_is_waited_for_as_any_other(state: Path) -> None:
    with hand(state, linger=0.05) as warden:
        first = warden.warden
        time.sleep(2.2)  # longer than it waits without one
        warden.leave()
        time.sleep(0.1)
        warden.connect()
        assert warden.warden == first


@pytest.mark.parametrize("victim", ["warden", "guard"])
def test_when_warden_or_guard_is_killed_nothing_is_left(state: Path, victim: str) -> None:
    warden = Hand(state)
    warden.spawn(
        daemon(after="import time; time.sleep(1000)"), daemon(stay="os.execve('/bin/sleep', ['sleep', '1000'], {})")
    )
    pids = [warden.pid(0), warden.pid(1), a_process_prints_its_pid(warden, 0), a_process_prints_its_pid(warden, 1)]
    os.kill(getattr(warden, victim), signal.SIGKILL)
    warden.hear_the_end()
    await_that(lambda: all(is_gone(pid) for pid in [*pids, warden.warden]), "somebody outlived the warden")
    os.waitpid(warden.guard, 0)
    warden.leave()
    warden.held.release()


def test_when_warden_and_guard_are_killed_together_the_next_warden_sweeps(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(daemon())
        pid = a_process_prints_its_pid(warden)
        for victim in (warden.guard, warden.warden):
            os.kill(victim, signal.SIGSTOP)  # so that neither can clean up after the other
        for victim in (warden.guard, warden.warden):
            os.kill(victim, signal.SIGKILL)
        os.waitpid(warden.guard, 0)
        await_that(lambda: is_gone(warden.warden), "the warden is still there")
        assert not is_gone(pid)
        warden.leave()
        warden.connect()
        assert is_gone(pid)
        assert warden.hello["gangs"] == []


def test_a_warden_that_hangs_is_succeeded_by_another(state: Path) -> None:
    with hand(state) as warden:
        warden.spawn(["sleep", "1000"])
        pid, hung = warden.pid(), (warden.guard, warden.warden)
        for process in hung:
            os.kill(process, signal.SIGSTOP)
        warden.leave()
        link = start_warden(warden.paths, fresh=True)
        link.socket.close()
        warden.connect()
        assert warden.warden not in hung
        assert is_gone(pid)
        os.waitpid(hung[0], 0)
        warden.guard = link.guard


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_nobody_else_may_command(state: Path) -> None:
    with hand(state) as warden:
        state.chmod(0o755)
        warden.paths.warden_socket.chmod(0o777)
        folder = os.open(state, os.O_PATH)
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(f"/proc/self/fd/{folder}/warden.sock")
                os._exit(0 if stranger.recv(100) == b"" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(folder)
        warden.spawn(["true"])
        warden.until("exit", code=0)


def test_output_is_rotated_and_the_oldest_part_removed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_LOG_PART", "1000")
    monkeypatch.setenv("WINDLASS_LOG_PARTS", "3")
    with hand(state) as warden:
        warden.spawn(python("for i in range(450): print(f'{i:09}')"))
        warden.until("exit", code=0)
        folder = warden.paths.generation_logs("job-1", 1)
        names = {file.name: file.stat().st_size for file in folder.iterdir() if not file.name.endswith(".idx")}
        assert names == {"0.out.3": 1000, "0.out.4": 1000, "0.out": 500}
        kept = "".join((folder / name).read_text() for name in ("0.out.3", "0.out.4", "0.out"))
        assert kept == "".join(f"{i:09}\n" for i in range(200, 450))


def test_output_that_cannot_be_written_is_dropped_and_the_rank_goes_on(state: Path) -> None:
    prints = "import os; [os.write(1, b'x' * 50000) for _ in range(20)]; print('done', file=__import__('sys').stderr)"
    with hand(state) as warden:
        folder = warden.paths.generation_logs("job-1", 1)
        folder.mkdir(parents=True)
        (folder / "0.out").symlink_to("/dev/full")
        warden.spawn(python(prints))
        warden.until("exit", code=0)
        lost = [report for report in warden.reports if report["tell"] == "output lost"]
        assert [(report["rank"], report["stream"], report["why"]) for report in lost] == [
            (0, "out", os.strerror(errno.ENOSPC))
        ]
        assert warden.output(stream="err") == "done\n"


def test_output_that_can_be_written_again_says_how_much_is_missing(state: Path) -> None:
    prints = "import os\nfor word in (b'lost', b'kept'): os.write(1, word); os.read(0, 1)\n"
    with hand(state) as warden:
        folder = warden.paths.generation_logs("job-1", 1)
        folder.mkdir(parents=True)
        (folder / "0.out").symlink_to("/dev/full")
        gate = state / "gate"
        os.mkfifo(gate)
        warden.spawn(["sh", "-c", f'exec "$@" < {gate}', "sh", *python(prints)])
        with gate.open("wb", buffering=0) as step:
            warden.until("output lost")
            (folder / "0.out").unlink()
            step.write(b"12")
            warden.until("exit", code=0)
        text = f"\n[windlass: 4 bytes of output were lost here: {os.strerror(errno.ENOSPC)}]\nkept"
        assert warden.output() == text


def test_paths_with_spaces_and_unicode_and_longer_than_a_socket_may_have(tmp_path: Path) -> None:
    state = tmp_path / "ein Ordner mit Ümläuten und 空白" / ("lang" * 30)
    assert len(bytes(state)) > 108
    with hand(state) as warden:
        warden.spawn(["printf", "%s", "größe 漢字 'quoted'"], job="job ü-1", cwd=str(tmp_path))
        warden.until("exit", code=0)
        assert warden.output(job="job ü-1") == "größe 漢字 'quoted'"
