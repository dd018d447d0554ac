"""Binds the members of a gang, our own or an external one: all of them, or the gang fails with the reason.

Requests without an answer are repeated. A refusal is the end of its member, by its class; after the first one no
further member is bound. A denial by an API server that has just started, which has not read the roles yet, is waited
out; so are failures of the API server itself for a gang that must be completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.persistent_request import RETRY_INTERVAL_S
from windlass.backends.kubernetes.cluster.placement_check import PlacementCheck
from windlass.backends.kubernetes.pods.pod_binding import CannotBindError, NotWantedError, PodBinding, end_of_refused
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import end_of_stale_placement
from windlass.core.model.job import Job
from windlass.core.model.status import Placement

_MAX_FAILURES = 20
"""Failures of the API server that a member outlasts. 401 and 403 are answered at once, so that they are repeated for
20 s; the others come after 30 s of attempts."""


class BindingProgress(Protocol):
    """The binding of one gang so far: the run of our own gang, or the allocation of an external one."""

    failed: dict[int, Exit]
    """Members that could not be bound, with the reason."""

    @property
    def stopping(self) -> bool:
        """Whether the gang is being stopped: no further member is bound."""

    @property
    def must_complete(self) -> bool:
        """Whether some members are bound that nothing would create again if the gang were given up."""


class PlacedGang(NamedTuple):
    """A gang and its placement."""

    id: str
    job: Job
    placement: Placement


class MemberStep(NamedTuple):
    """Requests for one member, which may be repeated. `refused`: what has failed if one is refused, in words."""

    member: int
    refused: str
    request: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class GangBinder:
    """Binder of gangs. `binding` limits the number of concurrent requests."""

    binding: PodBinding
    placements: PlacementCheck

    def is_stale(self, gang: PlacedGang, progress: BindingProgress, unbound: Mapping[int, str]) -> bool:
        """Tells whether a node of the unbound members can no longer take its part; then the first of them has failed.

        `unbound`: node of each member that is to be bound, by number.
        """
        stale = self.placements.find_stale_node(*gang, set(unbound.values()))
        if stale is not None:
            progress.failed[next(iter(unbound))] = end_of_stale_placement(stale.message)
        return stale is not None

    async def bind(self, progress: BindingProgress, steps: Iterable[MemberStep]) -> None:
        """Takes all steps at once, and notes in `progress.failed` which member cannot be bound."""
        await asyncio.gather(*(_take(progress, step) for step in steps))


async def _take(progress: BindingProgress, step: MemberStep) -> None:
    failures = 0
    while not (progress.failed or progress.stopping):
        try:
            await step.request()
        except NotWantedError:
            return
        except (CannotBindError, ApiError) as error:
            failures += 1
            if not (_may_repeat(progress, error) and failures < _MAX_FAILURES):
                progress.failed[step.member] = _end_of(step, error)
                return
            await asyncio.sleep(RETRY_INTERVAL_S)
        except BackendError:  # no answer, not the leader at present, or no credentials at present
            await asyncio.sleep(RETRY_INTERVAL_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this member's
            progress.failed[step.member] = end_of_refused(step.refused, error)
            return
        else:
            return


def _may_repeat(progress: BindingProgress, error: CannotBindError | ApiError) -> bool:
    """Tells whether a request may succeed later. Quotas and admission (403 too) end a gang that can be given up."""
    refusal = error if isinstance(error, ApiError) else error.refusal
    return refusal is not None and (refusal.is_denial or (progress.must_complete and refusal.may_pass))


def _end_of(step: MemberStep, error: CannotBindError | ApiError) -> Exit:
    return error.exit if isinstance(error, CannotBindError) else end_of_refused(step.refused, error)
