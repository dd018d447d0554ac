"""Which of a rank's streams go where, as torchrun's --redirects and --tee say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

OUT, ERR = 1, 2


class Streams(NamedTuple):
    """For all ranks, or by local rank: 0, or OUT and ERR added up."""

    everyone: int = 0
    by_rank: Mapping[int, int] = MappingProxyType({})

    def of(self, local_rank: int) -> int:
        """Of one rank; where only some are named, the others have none."""
        return self.by_rank.get(local_rank, self.everyone)


def which_streams(text: str) -> Streams:
    """From `3`, or `0:3,1:2`. Raises ValueError."""
    if re.fullmatch(r"[0-3]", text):
        return Streams(int(text))
    if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", text):
        pairs = (part.split(":") for part in text.split(","))
        return Streams(0, {int(rank): int(which) for rank, which in pairs})
    raise ValueError(text)
