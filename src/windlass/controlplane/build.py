"""Finds the programs of a cluster, and builds the missing ones into a cache outside the tree.

A program is at `~/.cache/windlass/controlplane/<version>/<name>` (or under `$XDG_CACHE_HOME`), whole or not at all.
`$KUBEBUILDER_ASSETS` names a folder that is looked into first, as the tools of kubebuilder do; for etcd,
kube-apiserver and kubectl only. One process builds at a time; others that need the same program wait for it. The
first build of the programs of a cluster takes about six minutes on two cores. helm and kustomize are not among them.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .processes import spawn
from .programs import MODULES, PROGRAMS, GoProgram, build_arguments
from .toolchain import find_go

REPORT_EVERY_S = 10.0
"""Seconds between two lines about a running build."""
BUILD_TIMEOUT_S = 45 * 60.0
"""Seconds; two slow cores need a third of it for the largest program."""
ASSETS = ("etcd", "kube-apiserver", "kubectl")


class BuildError(RuntimeError):
    """A program could neither be found nor built; the text has the reason."""


def cache_folder() -> Path:
    """The folder of all programs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "windlass/controlplane"


def place_of(program: GoProgram) -> Path:
    """The path of a program that exists, or that its build is to create."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and program.name in ASSETS and (Path(assets) / program.name).exists():
        return Path(assets) / program.name
    return cache_folder() / program.version / program.name


def missing(names: Sequence[str]) -> list[str]:
    """Names of the programs that are not built yet."""
    return [name for name in names if not place_of(PROGRAMS[name]).exists()]


def find(name: str) -> Path:
    """Returns the path of a program, built first if it is missing. Raises BuildError."""
    program = PROGRAMS[name]
    place, began = place_of(program), time.monotonic()
    while not place.exists():
        with building(program) as is_builder:
            if is_builder and not place.exists():
                build(program, place)
        if not is_builder:
            wait_for_others(program, place, began)
    return place


def find_all(names: Sequence[str]) -> None:
    """Finds or builds programs, in the order of PROGRAMS. Raises BuildError."""
    for name in sorted(names, key=list(PROGRAMS).index):
        find(name)


@contextmanager
def building(program: GoProgram) -> Iterator[bool]:
    """Yields whether this process holds the build lock. The lock ends with the process that holds it."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "building").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        lock.truncate(0)
        lock.write(program.name)
        lock.flush()
        yield True


def wait_for_others(program: GoProgram, place: Path, began: float) -> None:
    """Waits until the program exists, no other process builds, or a line is due; prints that line."""
    report_at = time.monotonic() + REPORT_EVERY_S
    while not place.exists() and time.monotonic() < report_at:
        time.sleep(0.2)
        with building(program) as is_builder:
            if is_builder:
                return
    if not place.exists():
        now = (cache_folder() / "building").read_text()
        report(f"waiting for {program.name}: another process builds {now} ({time.monotonic() - began:.0f} s)")


def build(program: GoProgram, place: Path) -> None:
    """Builds beside the target path and renames the result. Raises BuildError."""
    report(f"building {program.name} {program.version}: once on this machine; all of a cluster take about six minutes")
    began = time.monotonic()
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    log = place.with_name(f"{place.name}.log")
    try:
        go = find_go(cache_folder())
        arguments: list[str | Path] = [*build_arguments(program), "-o", temporary, program.package]
        command = ["nice", "-n", "10", go, "build", *arguments]
        follow(command, MODULES / program.module, log, program.name)
    except (OSError, subprocess.CalledProcessError) as failed:
        temporary.unlink(missing_ok=True)
        last_lines = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
        raise BuildError("\n".join([f"{program.name} could not be built: {failed}", *last_lines])) from failed
    temporary.rename(place)
    log.unlink()
    report(f"built {program.name} in {time.monotonic() - began:.0f} s")


def follow(command: Sequence[str | Path], folder: Path, log: Path, name: str) -> None:
    """Runs a build and prints its duration regularly. Raises CalledProcessError."""
    env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
    began = time.monotonic()
    log.unlink(missing_ok=True)
    process = spawn(command, log, env, folder)
    try:
        while process.poll() is None and (spent := time.monotonic() - began) < BUILD_TIMEOUT_S:
            with suppress(subprocess.TimeoutExpired):
                process.wait(REPORT_EVERY_S)
                break
            report(f"building {name} ({spent + REPORT_EVERY_S:.0f} s)")
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "go build")


def report(line: str) -> None:
    """Writes a line about a build to standard error."""
    sys.stderr.write(f"control plane: {line}\n")
    sys.stderr.flush()
