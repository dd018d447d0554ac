"""Kinds that other operators serve: a kind is led only once it is known that no other operator serves it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.cluster.other_operators import RIVAL_KINDS, Discovery, OtherOperator
from windlass.server.operator import rival_kinds
from windlass.server.operator.rival_kinds import RivalKinds

MPI = OtherOperator("the MPI operator", "kubeflow/mpi-operator", ("MPIJob",))
NOTHING = frozenset[str]()
UNDECIDED_MPI = Discovery([], frozenset({"MPIJob"}))
LATE = "cannot tell which other operators there are: the access reviews took longer than 10 s"


class Reader:
    """Notes the kinds that are left, and each change of them."""

    def __init__(self) -> None:
        self.foreign_kinds = NOTHING
        self.changes: list[frozenset[str]] = []

    def leave_kinds(self, kinds: frozenset[str]) -> None:
        self.foreign_kinds = kinds
        self.changes.append(kinds)


class Case:
    """Searches with these results, one after the other."""

    def __init__(self, *results: Discovery | Exception, left: frozenset[str] = NOTHING) -> None:
        self.results, self.said, self.faults = list(results), list[str](), Counter[str]()
        self.reader: Any = Reader()
        self.kinds = RivalKinds(self.search, self.reader, left, self.said.append, self.faults)

    async def search(self) -> Discovery:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def check(self) -> frozenset[str]:
        asyncio.run(self.kinds.check())
        return frozenset(self.reader.foreign_kinds)


def test_kinds_of_the_administrators_list_are_left_to_others() -> None:
    case = Case(Discovery([MPI]), left=frozenset({"TrainJob"}))
    case.check()
    assert case.reader.changes == [frozenset({"MPIJob", "TrainJob"})]
    assert len(case.said) == 1


def test_a_cluster_without_other_operators_leaves_no_kind() -> None:
    case = Case(Discovery([]))
    case.check()
    assert (case.reader.changes, case.said, case.kinds.pause_s) == ([], [], 60)


def test_a_kind_is_not_led_before_a_search_has_decided_who_serves_it() -> None:
    case = Case(UNDECIDED_MPI, UNDECIDED_MPI, Discovery([]))
    assert case.check() == {"MPIJob"}
    assert case.said == [
        f"{LATE}; until that is known, new jobs of MPIJob wait, but for jobs with managedBy: windlass.dev/operator"
    ]
    assert case.check() == {"MPIJob"}
    assert len(case.said) == 1
    assert case.check() == NOTHING
    assert case.said[1:] == ["no other operator serves MPIJob: their jobs wait no longer"]


def test_an_operator_that_is_found_late_keeps_its_kind() -> None:
    case = Case(UNDECIDED_MPI, Discovery([MPI]), Discovery([]))
    assert [case.check() for _ in range(3)] == [{"MPIJob"}, {"MPIJob"}, NOTHING]


def test_a_search_that_raises_decides_no_kind() -> None:
    case = Case(KeyError("spec"), Discovery([]))
    assert case.check() == RIVAL_KINDS
    assert case.faults == {"Operator": 1}
    assert case.said[0].startswith("cannot tell which other operators there are: KeyError: 'spec'; until that is known")
    assert case.check() == NOTHING


@pytest.mark.parametrize("undecided", [UNDECIDED_MPI, KeyError("spec")])
@pytest.mark.parametrize(("known", "kinds"), [(Discovery([MPI]), {"MPIJob"}), (Discovery([]), NOTHING)])
def test_known_kinds_stay_as_they_are_while_a_later_search_decides_nothing(
    known: Discovery, kinds: frozenset[str], undecided: Discovery | Exception
) -> None:
    case = Case(known, undecided)
    assert [case.check(), case.check()] == [kinds, kinds]
    assert case.said[-1].endswith("; what was known before holds")
    assert case.kinds.pause_s == 60


def test_an_api_server_that_cannot_be_reached_decides_nothing_and_is_reported_by_others() -> None:
    case = Case(Discovery([MPI]), Unreachable("no connection"))
    case.check()
    with pytest.raises(Unreachable):
        case.check()
    assert case.reader.foreign_kinds == {"MPIJob"}
    assert len(case.said) == 1


def test_a_search_that_decides_too_little_is_repeated_after_a_growing_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()
    case = Case(*[UNDECIDED_MPI] * 6, Unreachable("no connection"), Discovery([]))
    sleep: Callable[[float], Any] = asyncio.sleep

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if not case.results:
            raise asyncio.CancelledError
        await sleep(0)

    async def keep_checking() -> None:
        await case.kinds.check()
        await case.kinds.keep_checking()

    monkeypatch.setattr(rival_kinds.asyncio, "sleep", wait)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keep_checking())
    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
