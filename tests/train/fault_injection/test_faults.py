"""Faults of every kind upon a small GPT: losses equal those of the undisturbed run to the bit, no checkpoint is lost.

`benchmarks/training_faults.py` has a hundred of them, on more meshes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from fault_injection.faulted_run import run_with_faults, run_without_faults
from fault_injection.faulty_storage import Bucket, disk, store
from fault_injection.schedule import S3_FAULTS, WITHOUT_RECOVERY, Kind, assign_faults, draw_faults, required_steps

pytestmark = pytest.mark.timeout(300)
ON_A_DISK = draw_faults([Kind.KILL, Kind.STOP, Kind.TORN, Kind.FLIP, Kind.FULL], seed=4)
ON_S3 = draw_faults([Kind.S3_ERRORS, Kind.S3_LAG, Kind.S3_CUT, Kind.KILL_WRITING], seed=1)
STEPS = max(required_steps(ON_A_DISK), required_steps(ON_S3))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run_without_faults("dp=2", str(tmp_path_factory.mktemp("undisturbed")), STEPS)


def test_random_faults_with_checkpoints_on_a_disk(expected, tmp_path):
    with disk(tmp_path / "disk") as place:
        faults = [fault for fault in ON_A_DISK if place.can_be_filled or fault.kind is not Kind.FULL]
        outcome = run_with_faults("dp=2", place, STEPS, faults)
    assert outcome.losses == expected
    assert (outcome.lost, outcome.loaded) == ([], []), outcome.console
    assert [each.fault for each in outcome.faults] == faults
    assert outcome.skipped >= 1


def test_random_faults_with_checkpoints_on_s3(expected):
    pytest.importorskip("moto", reason="moto is the S3 server of the test")
    with store() as port:
        outcome = run_with_faults("dp=2", Bucket("s3://bucket/run", port), STEPS, ON_S3)
    assert outcome.losses == expected
    assert (outcome.lost, outcome.loaded) == ([], []), outcome.console
    assert [each.fault for each in outcome.faults] == ON_S3


def test_a_hundred_faults_are_assigned_to_their_storage_and_followed_by_a_load():
    bag = dict.fromkeys(Kind, 7) | dict.fromkeys(S3_FAULTS, 3)
    places = ["disk"] * 12 + ["s3"] * 4
    assigned = assign_faults(bag, places, seed=1)
    assert Counter(kind for kinds in assigned for kind in kinds) == bag
    for seed, (kinds, place) in enumerate(zip(assigned, places, strict=True)):
        faults = draw_faults(kinds, seed)
        assert sorted(fault.kind for fault in faults) == sorted(kinds)
        assert faults[-1].kind not in WITHOUT_RECOVERY
        assert place == "s3" or not S3_FAULTS & {fault.kind for fault in faults}
        assert draw_faults(kinds, seed) == faults
