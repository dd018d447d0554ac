"""A status as plain data reads back as it was, also of the largest gangs."""

from dataclasses import replace

import msgspec
import pytest

from windlass.backends.status_fields import from_fields, to_fields
from windlass.core.model.gang import MAX_MEMBERS
from windlass.core.model.status import Failure, FailureClass, Phase, Placement, Status, Target

BUSY = Status(
    phase=Phase.RUNNING,
    generation=3,
    placement=Placement({"worker": ("n1", "n2")}),
    target=Target.RESTART,
    waits_for=("a-1",),
    last_failure=Failure(FailureClass.USER, "ExitCode", "exit 1", 5, member=1),
)


@pytest.mark.parametrize("members", [0, 1, 70, 20_000, MAX_MEMBERS])
def test_a_status_reads_back_as_it_was(members: int) -> None:
    status = replace(BUSY, succeeded_members=(1 << members) - 1, restarting_members=1 << members)
    text = msgspec.json.encode(to_fields(status))
    assert from_fields(msgspec.json.decode(text)) == status


def test_defaults_and_unwanted_fields_are_left_out() -> None:
    assert to_fields(Status()) == {}
    assert "placement" not in to_fields(BUSY, without=("placement",))


def test_fields_of_later_versions_are_ignored() -> None:
    assert from_fields({"phase": "Queued", "later": 1}) == Status(phase=Phase.QUEUED)


@pytest.mark.parametrize("found", [{"succeeded_members": "no number"}, {"succeeded_members": 5}, {"phase": "Nowhere"}])
def test_damaged_fields_are_refused(found: dict[str, object]) -> None:
    with pytest.raises((msgspec.ValidationError, TypeError, ValueError)):
        from_fields(found)
