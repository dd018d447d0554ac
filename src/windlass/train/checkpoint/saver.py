"""Saving: training waits for a copy at most; writing, checking and committing happen in one thread behind it.

Every rank takes the same steps in the same order, on a group of their own, and hears of everybody's errors after each:
nobody branches on what only he knows.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from windlass.train.checkpoint import rng
from windlass.train.checkpoint.loading import rng_file
from windlass.train.checkpoint.staging import Stage, State, flattened, on_this_device
from windlass.train.checkpoint.store.errors import CheckpointError, OptionError, UnusableError
from windlass.train.checkpoint.store.layout import LATEST, folder_of
from windlass.train.checkpoint.store.manifest import FileFact, Manifest, to_json
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.retention import Retention, to_prune
from windlass.train.checkpoint.store.survey import candidates, torn
from windlass.train.checkpoint.together import Ranks, by_first, together
from windlass.train.checkpoint.writing import tensors_in, write_file, write_state

_PROBE = ".windlass"
_TO_ABANDON = 0.3
"""Seconds for a thread that writes to notice that nobody waits for it; one that does not goes on to its own failure."""


class Cost(NamedTuple):
    """What a save took on this rank: seconds that training waited, seconds until it was good, bytes of all ranks."""

    stall: float
    duration: float
    size: int
    untidy: str = ""
    """Why older ones could not be removed, or the newest not be pointed at: this one is good all the same."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A save as one rank begins it. `generators` and what `state` brings were taken before training goes on."""

    step: int
    samples: int
    mesh: str
    facts: Mapping[str, Any]
    generators: bytes
    state: Future[State]
    begun: float
    firsts: tuple[str, ...] = ()
    """What a forward pass changes, each rank's in its own way."""


class Saver:
    """Saves to one place, one at a time. All ranks make it, and call each of its methods, in the same order."""

    def __init__(
        self, place: Place, ranks: Ranks, *, after: int | None, keep: Retention | None = None, who: str = ""
    ) -> None:
        """`after`: the step that was loaded, None if nothing was. `who`: a rank's coordinates, for its generators.

        What a dead save left is removed. Raises CheckpointError on all ranks where the place cannot be written, or has
        checkpoints and none was loaded.
        """
        self._place = place
        self._ranks = ranks
        self._keep = keep or Retention()
        self._who = who or str(ranks.rank)
        self._last = after
        self._stage = Stage()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint", initializer=on_this_device())
        self._flight: tuple[int, Future[Cost]] | None = None
        self._staged: Future[State] | None = None
        self._stall = 0.0
        self.cost: Cost | None = None
        """Of the last save that is good."""
        by_first(ranks, lambda: _open(place, after))

    def save(
        self,
        state: State,
        step: int,
        *,
        samples: int = 0,
        mesh: str = "",
        facts: Mapping[str, Any] | None = None,
        at_once: Collection[str] = (),
        blocking: bool = False,
    ) -> None:
        """Begin to save `state`, nested dicts of tensors and of what can be pickled, as of `step`.

        Unless `blocking`, parameters must not change before `wait_until_staged`. `at_once` names tensors that a forward
        pass changes: of copies that differ by rank the lowest one's is saved. A step that is saved already is not saved
        again. Raises CheckpointError on all ranks if the save before this one failed.
        """
        self.wait()
        if step == self._last:
            return
        if self._last is not None and step < self._last:
            raise OptionError(f"step {step} comes before step {self._last}, which is saved: go back to {step} first")
        begun = time.monotonic()
        copied = partial(self._copied, state, at_once, blocking=blocking)
        draft = _drafted(copied, step, samples, mesh, facts or {}, begun)
        draft = replace(draft, firsts=tuple(at_once))
        self._staged = draft.state
        self._flight = step, self._pool.submit(self._carry_out, draft, self._last)
        self._stall = time.monotonic() - begun
        if blocking:
            self.wait()

    def wait_until_staged(self) -> None:
        """Return as soon as the optimizer may change the parameters again."""
        begun = time.monotonic()
        if self._staged is not None:
            wait([self._staged])
            self._staged = None
            self._stall += time.monotonic() - begun

    def wait(self) -> None:
        """Return when the save in flight is good. Raises CheckpointError, on all ranks the same, if it will not be."""
        if self._flight is None:
            return
        (step, flight), self._flight = self._flight, None
        begun = time.monotonic()
        cost = flight.result()
        self.cost = cost._replace(stall=self._stall + time.monotonic() - begun)
        self._last = step

    @property
    def in_flight(self) -> int | None:
        """The step whose save nobody has waited for yet."""
        return self._flight[0] if self._flight else None

    @property
    def ended(self) -> Cost | BaseException | None:
        """How the save in flight has ended on this rank; None while it goes on. Other ranks may not know yet."""
        if self._flight is None or not self._flight[1].done():
            return None
        return self._flight[1].exception() or self._flight[1].result()

    def go_back_to(self, step: int) -> None:
        """Training goes on from an older checkpoint: newer ones go as soon as the next one is saved."""
        self.wait()
        self._last = step

    def abandon(self) -> None:
        """Ranks are gone, and with them what is in flight: its thread hears of that at its next collective."""
        if self._flight is not None:
            wait([self._flight[1]], timeout=_TO_ABANDON)
        self._pool.shutdown(wait=False)
        self._stage.abandon()

    def close(self) -> None:
        """Wait for what is in flight, and give the host memory back. Raises as `wait`."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
            self._stage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        with contextlib.suppress(CheckpointError) if error else contextlib.nullcontext():
            self.close()

    def _copied(self, state: State, at_once: Collection[str], *, blocking: bool) -> Future[State]:
        whole = flattened(state)
        return _done(whole) if blocking else self._stage.begin(whole, at_once)

    def _carry_out(self, draft: _Draft, after: int | None) -> Cost:
        """In the background: from a copy of the state to a checkpoint that is committed."""
        folder = folder_of(draft.step)
        try:
            manifest = self._written(draft, folder, after)
            sizes = {name: fact.size for name, fact in manifest.files.items()}
            by_first(self._ranks, lambda: self._place.commit(folder, to_json(manifest), sizes))
        except BaseException:
            if self._ranks.first:
                with contextlib.suppress(CheckpointError):
                    self._place.clear(folder)
            raise
        untidy = ""
        try:
            by_first(self._ranks, lambda: self._tidied(folder))
        except Exception as error:  # noqa: BLE001 - it is committed, and good whatever becomes of older ones
            untidy = str(error)
        return Cost(0.0, time.monotonic() - draft.begun, manifest.size, untidy)

    def _written(self, draft: _Draft, folder: str, after: int | None) -> Manifest:
        """Everything but the commit."""
        place, ranks = self._place, self._ranks
        firsts = {name for part in together(ranks, lambda: _copied_names(draft)) for name in part}
        by_first(ranks, lambda: _make_room(place, folder, after))
        workshop = together(ranks, lambda: place.workshop(folder, ranks.rank))[ranks.rank]
        try:
            files, metadata = write_state(ranks, draft.state.result(), workshop, firsts)
            parts = together(ranks, lambda: self._delivered(draft, folder, workshop, files))
        finally:
            place.leave(workshop)
        return Manifest(
            step=draft.step,
            samples=draft.samples,
            mesh=draft.mesh,
            world=ranks.size,
            saved_at=time.time_ns() // 1_000_000,
            files={name: FileFact(*fact) for part in parts for name, fact in part.items()},
            tensors=tensors_in(metadata),
            facts=draft.facts,
        )

    def _delivered(self, draft: _Draft, folder: str, workshop: Path, files: dict[str, FileFact]) -> dict[str, FileFact]:
        """This rank's files, with its generators', in the place for good."""
        name = rng_file(self._who)
        files = {**files, name: write_file(workshop, name, draft.generators)}
        self._place.deliver(folder, workshop, {name: fact.size for name, fact in files.items()})
        return files

    def _tidied(self, folder: str) -> None:
        """The checkpoint is good already: point at it, and remove what nobody will want."""
        self._place.write(LATEST, f"{folder}\n".encode())
        for step in to_prune(candidates(self._place), self._keep):
            self._place.remove(folder_of(step))


def _drafted(
    copied: Callable[[], Future[State]], step: int, samples: int, mesh: str, facts: Mapping[str, Any], begun: float
) -> _Draft:
    """What goes wrong here goes wrong on this rank alone: it is kept for the background, where all hear of it."""
    told: dict[str, Any] = {}
    generators = rng.captured()  # before other threads start to work: from then on they share Python's lock
    try:
        told = json.loads(json.dumps(dict(facts), allow_nan=False))
        state = copied()
    except Exception as error:  # noqa: BLE001
        state = Future()
        state.set_exception(error)
    return _Draft(step, samples, mesh, told, generators, state, begun)


def _copied_names(draft: _Draft) -> tuple[str, ...]:
    """Of what is each rank's own; what went wrong with the copy is raised."""
    draft.state.result()
    return draft.firsts


def _done(state: State) -> Future[State]:
    ready: Future[State] = Future()
    ready.set_result(state)
    return ready


def _open(place: Place, after: int | None) -> None:
    """See that the place can be written and cleaned, that it is this run's, and that nothing dead lies in it."""
    place.write(_PROBE, b"")
    place.remove(_PROBE)
    dead = torn(place)
    if after is None and (others := [step for step in candidates(place) if folder_of(step) not in dead]):
        raise UnusableError(
            f"{place.text} has checkpoints up to step {others[0]:,}, and none of them was loaded\n"
            "go on from the newest one, or name a place of its own for this run"
        )
    for folder in dead:
        place.remove(folder)


def _make_room(place: Place, folder: str, after: int | None) -> None:
    """What is newer than what training came from belongs to a past that was given up."""
    for step in candidates(place):
        if step > (-1 if after is None else after):
            place.remove(folder_of(step))
    place.clear(folder)
