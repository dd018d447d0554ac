"""Index of the gangs of our kinds, by job id and by the key of their object, and the numbers that jobs get.

Filled by `job_reader`, which reads job objects; read by the gang controller, the commits and the operator's API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.jobs.kubernetes.bounded_integers import MAX_JOB_NUMBER

_MAX_RESUMED = MAX_JOB_NUMBER // 1000
"""Maximum number from which numbering continues."""


class JobStore:
    """Gangs of Windlass's own resource kinds, until the object is deleted and the gang has ended.

    `on_discard` is called with each gang that is removed.
    """

    def __init__(self, on_discard: Callable[[Gang], None] = lambda _gang: None) -> None:
        self._on_discard = on_discard
        self._gangs: dict[str, Gang] = {}
        self._by_key: dict[OwnerKey, Gang] = {}
        self.namespaces: set[str] = set()
        """Namespaces of all gangs that were ever added."""
        self._next_number = 1

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def __contains__(self, gang: Gang) -> bool:
        return self._gangs.get(gang.id) is gang

    def get(self, job_id: str) -> Gang | None:
        """Returns the gang of this id, ended or not."""
        return self._gangs.get(job_id)

    def get_owner(self, key: OwnerKey | None) -> Gang | None:
        """Returns the gang whose object has this key, by which objects of its namespace name it as their owner."""
        return self._by_key.get(key) if key is not None else None

    def add(self, gang: Gang) -> None:
        """Adds a gang under its id and under the key of its object; replaces one of the same id or key."""
        self.namespaces.add(gang.reference.namespace)
        self._gangs[gang.id] = self._by_key[gang.reference.owner_key] = gang

    def discard(self, gang: Gang) -> None:
        """Removes a gang, if it is there."""
        self._gangs.pop(gang.id, None)
        self._by_key.pop(gang.reference.owner_key, None)
        self._on_discard(gang)

    def allocate_number(self) -> int:
        """Returns a number that no job has, for a job that arrives: of our kinds or external."""
        self._next_number += 1
        return self._next_number - 1

    def resume_numbering(self, allocated: Iterable[int]) -> None:
        """Continues after the latest of the numbers that earlier controllers allocated.

        A number above `_MAX_RESUMED` was written by someone else: the numbers after it would soon be unreadable.
        """
        self._next_number = max((each for each in allocated if each <= _MAX_RESUMED), default=0) + 1
