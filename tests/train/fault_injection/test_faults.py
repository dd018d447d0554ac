"""Faults of every kind upon a small GPT: the losses are the undisturbed run's, to the bit, and no checkpoint is lost.

`benchmarks/training_faults.py` has a hundred of them, on more meshes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from fault_injection.faulted_run import disturbed, undisturbed
from fault_injection.faulty_storage import Bucket, disk, store
from fault_injection.schedule import OF_S3, QUIET, Kind, dealt, drawn, steps_for

pytestmark = pytest.mark.timeout(300)
ON_A_DISK = drawn([Kind.KILL, Kind.STOP, Kind.TORN, Kind.FLIP, Kind.FULL], seed=4)
ON_S3 = drawn([Kind.S3_ERRORS, Kind.S3_LAG, Kind.S3_CUT, Kind.KILL_WRITING], seed=1)
STEPS = max(steps_for(ON_A_DISK), steps_for(ON_S3))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return undisturbed("dp=2", str(tmp_path_factory.mktemp("undisturbed")), STEPS)


def test_random_faults_with_checkpoints_on_a_disk(expected, tmp_path):
    with disk(tmp_path / "disk") as place:
        faults = [fault for fault in ON_A_DISK if place.fills or fault.kind is not Kind.FULL]
        told = disturbed("dp=2", place, STEPS, faults)
    assert told.losses == expected
    assert (told.lost, told.loaded) == ([], []), told.console
    assert [met.fault for met in told.met] == faults
    assert told.passed_over >= 1


def test_random_faults_with_checkpoints_on_s3(expected):
    pytest.importorskip("moto", reason="S3 is played by moto")
    with store() as port:
        told = disturbed("dp=2", Bucket("s3://bucket/run", port), STEPS, ON_S3)
    assert told.losses == expected
    assert (told.lost, told.loaded) == ([], []), told.console
    assert [met.fault for met in told.met] == ON_S3


def test_a_hundred_faults_are_assigned_to_their_storage_and_followed_by_a_load():
    bag = dict.fromkeys(Kind, 7) | dict.fromkeys(OF_S3, 3)
    places = ["disk"] * 12 + ["s3"] * 4
    hands = dealt(bag, places, seed=1)
    assert Counter(kind for hand in hands for kind in hand) == bag
    for seed, (hand, place) in enumerate(zip(hands, places, strict=True)):
        faults = drawn(hand, seed)
        assert sorted(fault.kind for fault in faults) == sorted(hand)
        assert faults[-1].kind not in QUIET
        assert place == "s3" or not OF_S3 & {fault.kind for fault in faults}
        assert drawn(hand, seed) == faults
