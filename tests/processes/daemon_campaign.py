"""Seeded fault schedules of a daemon: kill -9 of every process, full disks, clock steps, damaged state files.

A schedule submits jobs through the command line and lets faults happen between and during these submissions. Then every
job must end, and `daemon_witness` judges. The draws are those of the seed; the instants depend on the machine.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from daemon_witness import (
    PROGRAMS,
    TOKEN,
    Asked,
    changed_answers,
    end_violations,
    job_file,
    processes_of,
    read_diary,
    repeated_work,
)
from terminal import environment

import cli_forks

SMALL = ("--local-nodes", "2", "--local-gpus", "2")
NO_DAEMON, UNUSABLE_STATE, HELD = 69, 74, 75
"""Exit codes that a verb may have while faults happen, besides 0."""
_END_TIMEOUT_S = 90.0
_START_TIMEOUT_S = 60.0
_DAMAGED = ("windlass.db", "windlass.db-wal", "windlass.db-shm", "lock", "id", "supervisor.lock", "commits")
_FATAL_TO_REPORTS = {"supervisor killed", "watchdog killed", "supervisor and watchdog killed", "all processes killed"}
"""Faults after which the end of a rank may not have been seen by any living process."""


class Wrong(Exception):  # noqa: N818 - ends a schedule
    """A violation after which the schedule cannot go on."""


@dataclass(slots=True)
class Report:
    """Result of one schedule."""

    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


class Schedule:
    """One schedule in `folder`. `disk`: an empty file system of a few MiB for the state, or None."""

    def __init__(self, seed: int, folder: Path, disk: Path | None) -> None:
        self.report = Report(seed)
        self._rng = Random(seed)  # noqa: S311 - faults, not secrets
        self._folder, self._disk = folder, disk
        self._state = (disk or folder) / "state"
        self._diary, self._log, self._clock = (folder / name for name in ("diary", "log", "clock"))
        self._clock.write_text("0")
        self._environment = environment(
            self._state, **{TOKEN: str(self._diary), cli_forks.CLOCK_FILE: str(self._clock)}
        )
        self._daemon = 0
        self._asked: list[Asked] = []
        self._submissions = 0
        """Number of submissions: the records forget jobs when they are moved aside, and names must not occur again."""
        self._ranks: dict[str, int] = {}
        """Number of ranks by job id."""
        self._cancelled: set[str] = set()
        self._pool = ThreadPoolExecutor(1)

    def run(self) -> Report:
        """Runs the schedule, and ends all its processes."""
        try:
            self._start()
            for action in self._actions():
                time.sleep(self._rng.choice((0, 0, self._rng.random() * 0.3)))
                action()
            self._finish()
        except Wrong as wrong:
            self.report.violations.append(str(wrong))
        finally:
            self._pool.shutdown()
            for pid in [self._daemon, *processes_of(self._diary)]:
                _kill(pid)
        return self.report

    def _actions(self) -> list[Callable[[], None]]:
        rng = self._rng
        kinds = rng.choices(sorted(PROGRAMS), k=rng.randrange(2, 6))
        actions: list[Callable[[], None]] = [lambda kind=kind: self._submit(kind) for kind in kinds]  # type: ignore[misc]
        faults = [self._kill_daemon, self._kill_daemon, self._kill_during_submission, self._kill_supervising]
        faults += [self._kill_rank, self._kill_all, self._step_clock, self._damage, self._damage]
        if self._disk is not None:
            faults = [*faults, self._fill_disk, self._fill_disk, self._fill_disk, self._fill_disk]
        actions += rng.choices(faults, k=rng.randrange(1, 4))
        if rng.random() < 0.2:
            actions.append(self._cancel)
        first, *others = actions
        rng.shuffle(others)
        return [first, *others]

    # --- the command line ------------------------------------------------------------------------------------

    def _run(self, *words: str, allowed: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        ran = cli_forks.run(words, self._environment, self._folder)
        if ran.returncode not in allowed or "Traceback" in ran.stderr:
            raise Wrong(f"{' '.join(words[:2])} → {ran.returncode}: {ran.stderr.strip()[-300:]}")
        return ran

    def _answer(self, *words: str) -> Any:
        """Returns the answer of a verb, or None where there is none at the moment."""
        ran = self._run(*words, "-o", "json", allowed=(0, NO_DAEMON, UNUSABLE_STATE))
        if ran.returncode == UNUSABLE_STATE and "is damaged (" in ran.stderr:
            self._begin_anew(ran.stderr)
        return json.loads(ran.stdout) if ran.returncode == 0 else None

    def _jobs(self) -> list[dict[str, Any]] | None:
        """Returns all jobs that the daemon knows."""
        living, ended = self._answer("queue"), self._answer("history", "--limit", "1000")
        return None if living is None or ended is None else [*living, *ended]

    def _submit(self, kind: str) -> None:
        self._submissions += 1
        name = f"{kind}{self._submissions}"
        asked = Asked(name, kind, self._rng.randrange(1, 4), acknowledged=False)
        file = self._folder / f"{name}.yaml"
        file.write_text(job_file(asked))
        ran = self._run("submit", "-f", str(file), allowed=(0, NO_DAEMON, UNUSABLE_STATE))
        self._asked.append(asked._replace(acknowledged=ran.returncode == 0))
        if ran.returncode == 0:
            self._ranks[ran.stdout.strip()] = asked.ranks

    def _cancel(self) -> None:
        name = self._rng.choice([job.name for job in self._asked])
        self._cancelled.add(name)
        cli_forks.run(["cancel", name], self._environment, self._folder)

    # --- the daemon ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts the daemon if there is none, and waits until it answers."""
        until = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < until:
            begin = self._log.stat().st_size if self._log.exists() else 0
            if not _is_alive(self._daemon):
                self._daemon = cli_forks.start(["up", *SMALL], self._environment, self._log)
            while _is_alive(self._daemon) and time.monotonic() < until:
                answer = self._answer("status")
                if answer and answer.get("pid") == self._daemon:
                    return
                time.sleep(0.02)
            self._judge_refusal(self._log.read_text()[begin:].strip())
        raise Wrong(f"the daemon does not start: {self._log.read_text()[-300:]}")

    def _judge_refusal(self, text: str) -> None:
        last = text.splitlines()[-1] if text else "it printed nothing"
        if "Traceback" in text:
            raise Wrong(f"the daemon printed a traceback: {text[-300:]}")
        if "is damaged (" in last:
            self._begin_anew(last)
        elif os.strerror(errno.ENOSPC) in last or "disk is full" in last:
            self._free_disk()
        elif "already controls" not in last:
            raise Wrong(f"the daemon did not start: {last[-300:]}")
        time.sleep(0.05)

    def _begin_anew(self, text: str) -> None:
        """Follows the remedy in the message about a damaged file; it says that the jobs so far are unknown then."""
        self.report.faults["damage refused with a message"] += 1
        if "Traceback" in text:
            raise Wrong(f"no clear message: {text[-300:]}")
        _kill(self._daemon)
        commands = re.findall(r"mv (?:'[^']*'|\S+) (?:'[^']*'|\S+)", text)
        if not commands:
            raise Wrong(f"a message without a remedy: {text[-300:]}")
        for command in commands:
            _, source, target = shlex.split(command)
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    shutil.move(f"{source}{suffix}", f"{target}{suffix}")
        self._asked.clear()
        self._ranks.clear()
        self._start()
        self._submit("plain")

    # --- faults ----------------------------------------------------------------------------------------------

    def _kill_daemon(self) -> None:
        self._note("daemon killed")
        _kill(self._daemon)
        if self._rng.random() < 0.5:
            self._start()

    def _kill_during_submission(self) -> None:
        self._note("daemon killed during a submission")
        self._start()
        submitting = self._pool.submit(self._submit, self._rng.choice(sorted(PROGRAMS)))
        time.sleep(self._rng.random() * 0.08)
        _kill(self._daemon)
        submitting.result()

    def _kill_supervising(self) -> None:
        wanted = self._rng.choice(("supervisor", "watchdog", "supervisor and watchdog"))
        self._note(f"{wanted} killed")
        self._kill_supervisors(wanted)

    def _kill_supervisors(self, wanted: str) -> None:
        found = sorted(pid for pid, line in processes_of(self._diary).items() if "supervisor/start.py" in line)
        # the watchdog is the parent, so it has the lower pid unless the numbers have started over
        chosen = {"supervisor": found[-1:], "watchdog": found[:1]}.get(wanted, found)
        for pid in chosen:
            _kill(pid, wait=False)

    def _kill_all(self) -> None:
        self._note("all processes killed")
        for pid in [self._daemon, *processes_of(self._diary)]:
            _kill(pid, wait=False)
        _kill(self._daemon)

    def _kill_rank(self) -> None:
        ranks = [entry.value for entry in read_diary(self._diary) if entry.what == "starts"]
        living = sorted(processes_of(self._diary).keys() & set(ranks))
        if living:
            self._note("rank killed")
            _kill(self._rng.choice(living), wait=False)

    def _step_clock(self) -> None:
        self._note("wall clock stepped")
        self._clock.write_text(str(self._rng.choice((-1, 1)) * self._rng.choice((1_000, 60_000, 48 * 3_600_000))))
        if self._rng.random() < 0.5:
            self._kill_daemon()

    def _fill_disk(self) -> None:
        self._note("disk full")
        if self._disk is None:
            return
        with (self._disk / "filler").open("wb", buffering=0) as stream:
            for size in (1 << 16, 1 << 12, 1):
                with suppress(OSError):
                    while stream.write(b"\0" * size):
                        pass
        waiting = self._pool.submit(self._submit, "short")
        time.sleep(self._rng.random() * 0.5)
        if self._rng.random() < 0.5:
            self._kill_daemon()
        self._free_disk()
        waiting.result()

    def _free_disk(self) -> None:
        if self._disk is not None:
            (self._disk / "filler").unlink(missing_ok=True)

    def _damage(self) -> None:
        """Kills the daemon, damages a file and compares the answers of the next daemon with those of this one."""
        self._start()
        before = self._jobs() or []
        _kill(self._daemon)
        if self._rng.random() < 0.5:
            self._note("supervisor and watchdog killed")
            self._kill_supervisors("supervisor and watchdog")
        contents = [name for name in _DAMAGED if (file := self._state / name).exists() and file.stat().st_size]
        name, truncates = self._rng.choice(contents or ["id"]), self._rng.random() < 0.5
        place, bit = self._rng.random(), self._rng.randrange(8)
        if not _damage_file(self._state / name, place, None if truncates else bit):
            return
        self._note(f"{name} {'truncated' if truncates else 'with a flipped bit'}")
        refusals = self.report.faults["damage refused with a message"]
        self._start()
        after = self._jobs()
        if after is not None and refusals == self.report.faults["damage refused with a message"]:
            self.report.violations += changed_answers(before, after)

    def _note(self, fault: str) -> None:
        self.report.faults[fault] += 1

    # --- the end ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._free_disk()
        self._clock.write_text("0")
        until = time.monotonic() + _END_TIMEOUT_S
        while True:
            self._start()
            queue = self._answer("queue")
            if queue == []:
                break
            if time.monotonic() > until:
                raise Wrong(f"jobs never end: {queue}")
            time.sleep(0.05)
        history = self._answer("history", "--limit", "1000")
        diary = read_diary(self._diary)
        if self.report.faults["damage refused with a message"]:
            # records were moved aside, so numbers begin again: only the jobs since then are judged one by one
            names = {job.name for job in self._asked}
            diary = [entry for entry in diary if entry.job_id.rpartition("-")[0] in names]
        self.report.violations += end_violations(self._asked, history, diary, cancelled=self._cancelled)
        if not _FATAL_TO_REPORTS & set(self.report.faults):
            self.report.violations += repeated_work(diary, self._ranks)
        self._run("down", "--yes")
        self.report.violations += self._left_behind()

    def _left_behind(self) -> list[str]:
        until = time.monotonic() + 20
        while (left := processes_of(self._diary)) and time.monotonic() < until:
            time.sleep(0.02)
        return [f"left behind: {pid} {line}" for pid, line in left.items()]


def _damage_file(file: Path, place: float, bit: int | None) -> bool:
    """Truncates a file at a part of its length, or flips one bit there. Tells whether there was something to damage."""
    content = bytearray(file.read_bytes() if file.exists() else b"")
    if not content:
        return False
    position = int(place * len(content))
    if bit is None:
        os.truncate(file, position)
    else:
        content[position] ^= 1 << bit
        with file.open("r+b") as stream:
            stream.seek(position)
            stream.write(content[position : position + 1])
    return True


def _kill(pid: int, *, wait: bool = True) -> None:
    if pid <= 0:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    while wait and _is_alive(pid):
        time.sleep(0.002)


def _is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return pid > 0 and bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
