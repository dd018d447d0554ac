"""Noticing that others are gone: their membership says how to go on, and the step that was under way is void."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

from windlass import wire
from windlass.train.checkpoint.store.errors import RankGoneError
from windlass.train.health import last_words
from windlass.train.health.signals import Requests
from windlass.train.telemetry.heart import Heart

_PATIENCE = 10.0
"""Seconds from a broken collective to the membership: agents miss a silent one after three, if not told else."""
_LOOK = 0.05


class Survival:
    """Of this rank. While `is_able` an error of others is survived, if the agent says how to go on."""

    def __init__(self, heart: Heart, requests: Requests) -> None:
        self._heart, self._requests = heart, requests
        self.is_able = False
        self.is_void = os.environ.pop(wire.SURVIVORS, "") == "1"
        """Nothing is computed and nobody is asked until this rank is where the others are: the step is to be repeated,
        or this rank has just been started and they have the state. That is read once: it is not so of a later run in
        this process, nor of its children."""

    @property
    def joins(self) -> bool:
        """Whether this rank has just been started beside others that go on."""
        return self.is_void and not self.is_able

    def begin(self, *, able: bool) -> None:
        """This rank has what the others have; if it is able, it can be one of those who go on from now on."""
        self.is_void, self.is_able = False, able
        if able:
            self._heart.says_it_reforms(able=True)

    def end(self) -> None:
        """What follows is no step."""
        if self.is_able:
            self.is_able = False
            self._heart.says_it_reforms(able=False)

    @contextlib.contextmanager
    def survived(self) -> Iterator[None]:
        """An error inside by which others are gone makes the step void; any other is raised.

        Ends this process if all are asked to leave instead of going on.
        """
        try:
            yield
        except (RuntimeError, RankGoneError) as error:
            if not self.is_able or not _is_of_others(error) or not self._told():
                raise
            self.is_void = True

    def _told(self) -> bool:
        """Whether there is a membership to go on with."""
        until = time.monotonic() + _PATIENCE
        while self._heart.next_membership(_LOOK) is None:
            if self._requests.asked:
                self._end_at_once()
            if time.monotonic() > until:
                return False
        return True

    def _end_at_once(self) -> NoReturn:
        """All are stopped, to be started anew: what Python does at its end takes longer than all else of that."""
        self._heart.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(wire.RankExitCode.RETRY)


def _is_of_others(error: BaseException) -> bool:
    return isinstance(error, RankGoneError) or last_words.is_of_others(error)
