"""Options by which several torchruns meet, as one text: those of a batch script and of a container alike."""

from __future__ import annotations

import re

LAUNCHER = re.compile(r"(?:^|[\s;&|(/\"'])(?:torchrun|torch\.distributed\.(?:run|launch))(?=\s)")
INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""Variables that name the interface between the nodes."""
LOOPBACK = ("lo", "=lo")
"""Values of these variables that name the loopback interface."""
_PROGRAM = re.compile(r"\s(?:-m\s|\S+\.(?:py|sh)\b)")
"""The start of the program that torchrun starts, whose options are its own."""
_FLAGS = re.compile(r"--(?:standalone|no[-_]python|run[-_]path|use[-_]env)")
"""Options of torchrun without a value."""
_ENDPOINT = re.compile(r"--rdzv[-_]endpoint\b")
_MASTER = re.compile(r"--master[-_]addr\b")
_BACKEND = re.compile(r"--rdzv[-_]backend[= ][\"']?(\S+)")


def torchrun_options(line: str) -> str | None:
    """The options of the first torchrun of a command line; None if it starts none."""
    launcher = LAUNCHER.search(line)
    return _PROGRAM.split(line[launcher.end() :])[0] if launcher else None


def has_every_value(options: str) -> bool:
    """Tells whether no variable stands for further options: each one is the value of an option."""
    words = options.split()
    pairs = zip(["", *words], words, strict=False)
    before = [each for each, word in pairs if word.lstrip("\"'").startswith("$")]
    return all(each.startswith("--") and "=" not in each and not _FLAGS.fullmatch(each) for each in before)


def is_static(options: str) -> bool:
    """Tells whether torchrun has the default backend, which needs --node-rank."""
    backend = _BACKEND.search(options)
    return backend is None or backend[1].startswith("static")


def has_address(options: str) -> bool:
    """Tells whether an option names where the nodes meet; without one each torchrun takes its own node."""
    return bool(_ENDPOINT.search(options) or (_MASTER.search(options) and is_static(options)))


def has_any_address(options: str) -> bool:
    """As `has_address`, also with an option that the backend does not read."""
    return bool(_ENDPOINT.search(options) or _MASTER.search(options))
