"""Reasons for which external gangs wait: one sentence a gang, for the conditions of its pods and for its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external.dialects import job_id
from windlass.backends.kubernetes.external.groups import Groups
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions
from windlass.jobs.kubernetes.external.membership import GangKey


class PendingMessages:
    """Sentences by the id that a gang has, or will have."""

    def __init__(self, conditions: PendingConditions, groups: Groups) -> None:
        self._conditions, self._groups = conditions, groups
        self._sentences: dict[str, str] = {}

    def say(self, gang: str, sentence: str, pods: Callable[[], Iterable[Pod]]) -> None:
        """Sets the sentence of a gang. `pods` is called when the sentence is written."""
        self._sentences[gang] = sentence
        self._conditions.say(gang, sentence, pods)

    def clear(self, gang: str) -> None:
        """Removes the sentence of a gang that no longer waits."""
        if self._sentences.pop(gang, None) is not None:
            self._conditions.forget(gang)

    def of_group(self, member: GangKey) -> str:
        """Returns why a group does not start; "" if nothing holds it back."""
        group = self._groups.get(member)
        if group is None:
            return ""
        return group.refused[0] or group.missing or self._sentences.get(job_id(member, member.name), "")
