"""Keeps the dependent objects of gangs (services, config maps, launchers' Jobs) as their running pods need them.

Requests run in the background; what the API server refuses is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.persistent_request import request_until_answered
from windlass.backends.kubernetes.gangs.gang import NEVER_MADE, Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.pods.dependent_objects import ASK_WHO_RUNS, DependentObjects, Wanted
from windlass.backends.kubernetes.pods.pod_binding import PodBinding
from windlass.core.model.job import Job
from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.kinds import registry

_SUSPENDED = -1
"""In `DependentState.made_for`: no revision of running pods, but the suspended job."""
_MAX_DELAY_S = 3.0
"""Seconds that dependent objects may be delayed after pods while other gangs start."""
_RETRY_S = 30.0
"""Seconds before the creation of dependent objects that the API server has refused is repeated."""


class DependentUpkeep:
    """Creates, updates and deletes the dependent objects of gangs in the background.

    `node_grace`: returns the milliseconds that a job's pods stay on an unreachable node. `mark` is called with each
    gang that was worked on, `on_trouble` with unexpected errors.
    """

    def __init__(
        self,
        dependents: DependentObjects,
        binding: PodBinding,
        node_grace: Callable[[Job], int],
        mark: Callable[[Gang], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._dependents, self._at_once, self._leaving = dependents, binding.at_once, binding.leaving
        self._node_grace, self._mark, self._on_trouble = node_grace, mark, on_trouble
        self._tasks = BackgroundTasks(on_trouble)

    def wanted(self, gang: Gang, generation: int, sizes: Mapping[str, int], is_wanted: Callable[[], bool]) -> Wanted:
        """Returns a generation for which dependent objects are created."""
        return Wanted(generation, sizes, self._node_grace(gang.job), is_wanted)

    def wanted_by(self, gang: Gang, run: Run) -> Wanted:
        """Returns the generation of a run, for which dependent objects are created until it is stopped."""
        return self.wanted(gang, run.generation, run.sizes, lambda: not run.stopping)

    def update(self, gang: Gang, run: Run) -> None:
        """Creates the dependent objects of a run; those of some kinds depend on which pods run."""
        now = run.generation, run.pods.revision if gang.parsed.kind in ASK_WHO_RUNS else 0
        if gang.dependents.made_for != now and not run.updating_dependents:
            gang.dependents.made_for, run.updating_dependents = now, True
            running = frozenset(run.pods.running) if gang.parsed.kind in ASK_WHO_RUNS else frozenset()
            self._tasks.start(self._update(gang, run, running))

    def update_suspended(self, gang: Gang) -> None:
        """Creates the dependent objects of a suspended MPIJob v2beta1, whose launcher's Job is suspended too."""
        dependents, key = gang.dependents, (gang.status.generation, _SUSPENDED)
        is_kept = gang.parsed.api_version == registry.V2 and _is_suspended(gang)
        if is_kept and dependents.made_for != key:
            dependents.made_for = key
            wanted = self.wanted(gang, gang.status.generation, gang.sizes, lambda: _is_suspended(gang))
            self._tasks.start(self._create(gang, wanted, ()))

    def forget_jobs(self, gang: Gang) -> None:
        """Has a launcher's Job that was deleted created again, if the gang still needs it."""
        made = gang.dependents.made
        deleted = [name for name in made if name[0] == "Job"]
        for name in deleted:
            del made[name]
        if deleted:
            gang.dependents.made_for = NEVER_MADE

    def end_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Deletes launchers' Jobs, with their pods; repeated calls have no effect."""
        for job in jobs:
            about = job["metadata"]
            if about["uid"] not in self._leaving and not about.get("deletionTimestamp"):
                self._leaving.add(about["uid"])
                self._tasks.start(request_until_answered(partial(self._dependents.end_job, about)))

    def remove_services(self, gang: Gang, pods: Collection[str], run: Run | None = None) -> None:
        """Deletes the services of pods that were removed; they are created again for the next generation.

        `run`: waits for that. Only such a call deletes services that an earlier controller has created.
        """
        made = gang.dependents.made
        uids = {name: made.pop(("Service", name)).uid for name in pods if ("Service", name) in made}
        is_unknown = run is not None and gang.dependents.made_for == NEVER_MADE
        if uids or is_unknown:
            if run is not None:
                run.removing_services = True
            self._tasks.start(self._remove_services(gang, uids, pods if is_unknown else (), run))

    async def _remove_services(
        self, gang: Gang, uids: Mapping[str, str], unknown: Collection[str], run: Run | None
    ) -> None:
        try:
            found = await request_until_answered(partial(self._dependents.find_services, gang, unknown))
            await request_until_answered(partial(self._dependents.remove_services, gang, {**found, **uids}))
        finally:
            if run is not None:
                run.removing_services = False
                self._mark(gang)

    async def close(self) -> None:
        """Stops all work in the background; the cluster stays as it is."""
        await self._tasks.close()

    async def _update(self, gang: Gang, run: Run, running: Collection[str]) -> None:
        try:
            await self._create(gang, self.wanted_by(gang, run), running)
        finally:
            run.updating_dependents = False

    async def _create(self, gang: Gang, wanted: Wanted, running: Collection[str]) -> None:
        try:
            await self._at_once.wait_until_idle(_MAX_DELAY_S)
            await request_until_answered(lambda: self._dependents.make(gang, wanted, running))
        except ApiError as error:
            gang.notes.creation_error, gang.notes.needs_write = (
                f"its dependent objects cannot be created: {error}",
                True,
            )
            self._on_trouble(f"{gang.id}: {gang.notes.creation_error}")
            self._tasks.start(self._retry_later(gang))
        else:
            gang.notes.needs_write |= bool(gang.notes.creation_error)
            gang.notes.creation_error = ""
        finally:
            self._mark(gang)

    async def _retry_later(self, gang: Gang) -> None:
        failed = gang.dependents.made_for
        await asyncio.sleep(_RETRY_S)
        if gang.dependents.made_for == failed:
            gang.dependents.made_for = NEVER_MADE  # the next look creates them again
            self._mark(gang)


def _is_suspended(gang: Gang) -> bool:
    """Tells whether a job is suspended by its spec, and nothing of it runs."""
    return gang.run is None and gang.status.phase is Phase.SUSPENDED and gang.parsed.run_policy.suspend
