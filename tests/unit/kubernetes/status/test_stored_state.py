"""The state in a job's object is read back as it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.stored_state import Stored, UnreadableError
from windlass.backends.kubernetes.status.state_writes import merge_patch
from windlass.core.model.status import Failure, FailureClass, Phase, Placement, Status, Target
from windlass.jobs.kubernetes.bounded_integers import MAX_COUNT, MAX_JOB_NUMBER, MAX_TIME_MS

TIMES = st.integers(0, MAX_TIME_MS)
names = st.text("abc-9", min_size=1, max_size=5)
placements = st.builds(Placement, st.dictionaries(names, st.lists(names, max_size=3).map(tuple), max_size=2))
failures = st.builds(Failure, st.sampled_from(FailureClass), names, st.text(max_size=20), TIMES, st.none(), st.none())
statuses = st.builds(
    Status,
    phase=st.sampled_from(Phase),
    message=st.text(max_size=40).filter(lambda text: text.isprintable()),
    generation=st.integers(0, 10_000),
    placement=st.none() | placements,
    target=st.none() | st.sampled_from(Target),
    restarting_members=st.integers(0, 2**80),
    succeeded_members=st.integers(0, 2**200) | st.just(2**20_000 + 1),
    resize_to=st.none() | placements,
    last_failure=st.none() | failures,
    queued_at=st.none() | TIMES,
    waits_for=st.lists(names, max_size=2).map(tuple),
)


@given(statuses, st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_written_state_is_read_back(status: Status, number: int, revision: int) -> None:
    before = Stored(number, revision, status)
    assert stored_state.read(json.loads(json.dumps(stored_state.to_patch(before)))) == before


@given(statuses, st.lists(statuses, max_size=3))
def test_consecutive_states_are_read_from_the_merged_object(first: Status, others: list[Status]) -> None:
    stored = Stored(1, 1, first)
    kept: object = merged({}, stored_state.to_patch(stored))
    for status in [first, *others, *others[-1:]]:
        stored = stored.followed_by(status)
        patch = json.loads(json.dumps(stored_state.to_patch(stored)))
        kept = merged(kept, patch)
        assert stored_state.read(kept) == stored


def test_the_end_of_a_member_does_not_write_the_placement_again() -> None:
    placement = Placement({"worker": tuple(f"node-{number}.example.com" for number in range(5_000))})
    running = Status(phase=Phase.RUNNING, generation=1, placement=placement)
    stored = Stored(1, 4, running)
    assert len(json.dumps(stored_state.to_patch(stored))) > 100_000
    after = stored.followed_by(replace(running, succeeded_members=2**5_000 - 1))
    assert len(json.dumps(stored_state.to_patch(after))) < 2_000
    gone = after.followed_by(replace(running, placement=None))
    assert stored_state.to_patch(gone)["placements"] is None


def test_placements_of_another_revision_are_ignored() -> None:
    placement = Placement({"worker": ("n1",)})
    first = stored_state.to_patch(Stored(1, 4, Status(placement=placement)))
    later = stored_state.to_patch(Stored(1, 5, Status(placement=placement)))
    with pytest.raises(UnreadableError, match="placements are of revision 4"):
        stored_state.read({**later, "placements": first["placements"]})
    with pytest.raises(UnreadableError):
        stored_state.read({**later, "placements": None})


def test_the_written_state_shows_phase_and_generation() -> None:
    written = stored_state.to_patch(Stored(1, 2, Status(phase=Phase.RUNNING, generation=3)))
    assert (written["phase"], written["generation"]) == ("Running", 3)


def test_fields_of_a_later_version_are_ignored() -> None:
    written = stored_state.to_patch(Stored(1, 2, Status()))
    state = json.dumps({**json.loads(written["state"]), "invented": {"later": True}})
    assert stored_state.read({**written, "state": state, "more": 1}) == Stored(1, 2, Status())


@pytest.mark.parametrize(
    "found", [7, {"number": 1}, {"number": 1, "revision": 1, "phase": "", "generation": 0, "state": "{"}]
)
def test_an_unreadable_state_is_no_missing_state(found: object) -> None:
    with pytest.raises(UnreadableError):
        stored_state.read(found)


def test_an_object_without_a_state_has_none() -> None:
    assert stored_state.read(None) is None


json_values = st.recursive(
    st.integers(0, 3) | st.sampled_from("ab"), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
)
objects = st.dictionaries(st.sampled_from("xyz"), json_values, max_size=3)


def merged(target: object, patch: object) -> object:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(objects, objects)
def test_a_difference_leads_from_one_object_to_the_other(before: dict[str, object], wanted: dict[str, object]) -> None:
    after = merged(before, merge_patch(before, wanted))
    assert after == {**before, **wanted}


@pytest.mark.parametrize(
    "changes",
    [
        {"number": MAX_JOB_NUMBER + 1},
        {"revision": MAX_COUNT + 1},
        {"revision": -1},
        *({"state": f'{{"{name}": {10**19}}}'} for name in ("generation", "queued_at", "service")),
        {"state": '{"generation": -1}'},
        {"state": '{"queued_at": ' + "9" * 4_301 + "}"},
        {"state": '{"succeeded_members": "-1"}'},
        {"state": '{"succeeded_members": "' + "f" * 300_000 + '"}'},
        {"state": "[" * 100_000},
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_state_with_a_number_that_no_controller_writes_is_unreadable(changes: dict[str, Any]) -> None:
    written = stored_state.to_patch(Stored(1, 1, Status())) | changes
    with pytest.raises(UnreadableError):
        stored_state.read(written)
