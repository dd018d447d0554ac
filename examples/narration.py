"""Output of the demos: sentences for the reader, commands as a user would type them, and their output."""

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
FIRST_NOTE_S = 2.0
"""Time after which a wait prints what it waits for."""


class DemoFailedError(Exception):
    """A step of the demo had another result than the demo describes."""


def explain(text: str) -> None:
    """Print a sentence for the reader, set off from the output of the commands."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"\n{bold}{textwrap.fill(text, 100)}{plain}", flush=True)


def show(command: str) -> str:
    """Print a command, run it, print its output and return that."""
    print(f"$ {command}", flush=True)
    output = output_of(command)
    print(output, end="", flush=True)
    return output


def output_of(command: str) -> str:
    ran = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    expect(ran.returncode == 0, f"`{command}` ended with exit code {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def follow(command: str) -> Iterator[str]:
    """Print the output of a command as it comes, without the ranks' tracebacks, and yield each line."""
    print(f"$ {command}", flush=True)
    with subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            if not TRACEBACK.search(line):
                print(line, end="", flush=True)
            yield line
    expect(process.returncode == 0, f"`{command}` ended with exit code {process.returncode}")


def wait_until(description: str, condition: Callable[[], T], timeout: float) -> T:
    """Poll until the condition is true, and print from time to time what it is.

    Raises DemoFailedError after `timeout` seconds.
    """
    began, noted = time.monotonic(), 0.0
    while not (result := condition()):
        waited = time.monotonic() - began
        expect(waited < timeout, f"still waiting for {description} after {timeout:.0f} seconds")
        if waited > max(FIRST_NOTE_S, 2 * noted):
            noted = waited
            print(f"  … {description} ({waited:.0f} s)", flush=True)
        time.sleep(0.3)
    return result


def expect(held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise DemoFailedError with the text `otherwise` unless the condition holds."""
    if not held:
        raise DemoFailedError(otherwise)
