"""How the demos speak: sentences for the reader, commands as they would be typed, and what these print."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
TRACEBACK = re.compile(r"\[rank\d+\]:")
"""PyTorch's own prefix."""
QUIET = 2.0
"""Seconds after which whoever waits is told for what."""


class NotAsShownError(Exception):
    """Something did not happen as the demo says it does."""


def tell(text: str) -> None:
    """A sentence for the reader, set off from what the commands print."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"\n{bold}{textwrap.fill(text, 100)}{plain}", flush=True)


def show(command: str) -> str:
    """Print a command as it would be typed, run it, print what it says and return that."""
    print(f"$ {command}", flush=True)
    said = output_of(command)
    print(said, end="", flush=True)
    return said


def output_of(command: str) -> str:
    ran = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    expect(ran.returncode == 0, f"`{command}` ended with exit code {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def follow(command: str) -> Iterator[str]:
    """Print what a command says as it says it, less the ranks' tracebacks, and yield each line."""
    print(f"$ {command}", flush=True)
    with subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            if not TRACEBACK.search(line):
                print(line, end="", flush=True)
            yield line
    expect(process.returncode == 0, f"`{command}` ended with exit code {process.returncode}")


def until(what: str, found: Callable[[], T], patience: float) -> T:
    """Look until something is found, and say what is waited for. Raises NotAsShownError after `patience` seconds."""
    began, said = time.monotonic(), 0.0
    while not (result := found()):
        waited = time.monotonic() - began
        expect(waited < patience, f"still waiting for {what} after {patience:.0f} seconds")
        if waited > max(QUIET, 2 * said):
            said = waited
            print(f"  … {what} ({waited:.0f} s)", flush=True)
        time.sleep(0.3)
    return result


def expect(held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not held:
        raise NotAsShownError(otherwise)
