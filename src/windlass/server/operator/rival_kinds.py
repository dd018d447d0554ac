"""Kinds that are left to other operators: two operators of one kind would both create the pods of its jobs.

A kind that some known operator serves is led only after a search has found none in this cluster.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from windlass.backends.kubernetes.cluster.other_operators import DEADLINE_S, RIVAL_KINDS, Discovery, OtherOperator
from windlass.backends.kubernetes.jobs.job_reader import JobReader
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.kinds.run_policy import WINDLASS_OPERATOR
from windlass.wire import exponential_backoff

_CHECK_INTERVAL_S = 60.0
"""Seconds between two searches for other operators."""
_BACKOFF_S = 5.0
"""Seconds before a search that did not end is repeated; doubled each time up to the interval."""
_OURS = f"jobs with managedBy: {WINDLASS_OPERATOR}"


class RivalKinds:
    """Leaves kinds to other operators until those are gone, and holds kinds whose operators are not known yet.

    `search` raises BackendError. `left`: kinds that the administrator leaves to others. `faults` counts searches that
    an object has made raise.
    """

    def __init__(
        self,
        search: Callable[[], Awaitable[Discovery]],
        reader: JobReader,
        left: frozenset[str],
        say: Callable[[str], None],
        faults: Counter[str],
    ) -> None:
        self._search, self._reader, self._left, self._say, self._faults = search, reader, left, say, faults
        self._held = RIVAL_KINDS - left
        """Kinds of which no search has told whether another operator serves them."""
        self._served: frozenset[str] = frozenset()
        """Kinds that another operator serves, as the last search that told it has found."""
        self._failures = 0
        """Number of searches so far that have left kinds undecided."""

    @property
    def pause_s(self) -> float:
        """Seconds until the next search."""
        if not self._failures:
            return _CHECK_INTERVAL_S
        return exponential_backoff(self._failures - 1, _BACKOFF_S, _CHECK_INTERVAL_S)

    async def keep_checking(self) -> None:
        """Checks regularly, until cancelled."""
        while True:
            await asyncio.sleep(self.pause_s)
            try:
                await self.check()
            except BackendError:
                continue  # the watches report it

    async def check(self) -> None:
        """Searches for other operators, and leaves their kinds to them.

        A kind that this search does not decide stays as it is. Raises BackendError; whatever else a deployment of a
        tenant makes the search raise decides no kind.
        """
        try:
            found = await self._search()
        except BackendError:
            raise
        except Exception as error:  # noqa: BLE001 - any tenant may have written the object
            self._faults["Operator"] += 1
            self._apply(Discovery((), RIVAL_KINDS), f"{type(error).__name__}: {error}")
        else:
            self._apply(found, f"the access reviews took longer than {DEADLINE_S:.0f} s")

    def _apply(self, found: Discovery, cause: str) -> None:
        """Leaves kinds by the result of a search. `cause`: why it does not decide all kinds."""
        before, self._held = self._held, self._held & found.unknown
        served = frozenset(kind for each in found.operators for kind in each.serves)
        self._served = served | (self._served & found.unknown)
        kinds = self._served | self._held | self._left
        if kinds != self._reader.foreign_kinds:
            self._report_operators(found.operators)
            self._reader.leave_kinds(kinds)
        if found.unknown:
            self._report_undecided(cause)
        elif self._failures and (free := before - kinds):
            self._say(f"no other operator serves {_listed(free)}: their jobs wait no longer")
        self._failures = self._failures + 1 if self._held else 0

    def _report_operators(self, operators: Sequence[OtherOperator]) -> None:
        for each in operators:
            if each.serves:
                self._say(f"{', '.join(each.serves)} are left to {each}, but for {_OURS}")

    def _report_undecided(self, cause: str) -> None:
        if not self._held:
            self._say(f"cannot tell which other operators there are: {cause}; what was known before holds")
        elif not self._failures:
            kinds = f"new jobs of {_listed(self._held)} wait, but for {_OURS}"
            self._say(f"cannot tell which other operators there are: {cause}; until that is known, {kinds}")


def _listed(kinds: Iterable[str]) -> str:
    return ", ".join(sorted(kinds))
