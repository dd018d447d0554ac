"""The command of `dist.ddp`: torchrun in bash with a rendezvous of its own, which Windlass's takes the place of."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_RENDEZVOUS = ("--rdzv_backend", "--rdzv_endpoint", "--rdzv_id", "--nnodes")
"""Options that Windlass passes as variables of torchrun: another port for each start, and the nodes of this start."""
_ENDPOINT = "$${${rank0_env}:=localhost}:"
"""Beginning of the endpoint that `dist.ddp` writes for several nodes: the shell reads it, so it is not quoted."""


def direct_torchrun(words: Sequence[str]) -> list[str] | None:
    """The command of torchrun in the shell of `dist.ddp`, without its rendezvous; None for any other command."""
    if len(words) != 3 or words[:2] != ["bash", "-c"]:
        return None
    try:
        inner = shlex.split(words[2])
    except ValueError:
        return None
    written = " ".join(word if word.startswith(_ENDPOINT) else shlex.quote(word) for word in inner)
    if written != words[2] or inner[:3] != ["torchrun", "--rdzv_backend", "c10d"]:
        return None
    kept = list[str]()
    rest = iter(inner)
    for word in rest:
        if word in _RENDEZVOUS and len(kept) == 1:
            next(rest, None)
        else:
            kept.append(word)
    return kept
