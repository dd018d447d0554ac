"""Checkpoints in a real S3 API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import ranks
import training
from fault_injection.faulty_storage import saved_folder
from test_two_writers import check_late_commit, check_refusal_of_a_second_run

from windlass.train.checkpoint.lease_holder import identify_holder
from windlass.train.checkpoint.store import writer_lease
from windlass.train.checkpoint.store.errors import LeaseHeldError, LeaseLostError
from windlass.train.checkpoint.store.inventory import CheckpointStatus, list_checkpoints
from windlass.train.checkpoint.store.layout import folder_of
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.verification import verify_files
from windlass.train.checkpoint.store.writer_lease import take_writer_lease

pytestmark = pytest.mark.timeout(300)


def test_checkpoints_are_saved_listed_verified_pruned_and_loaded(tmp_path, place):
    ranks.run(tmp_path / "a", 2, training.train, place, 3)
    seen = list_checkpoints(open_storage(place))
    assert [(each.step, each.state) for each in seen] == [
        (3, CheckpointStatus.COMPLETE),
        (2, CheckpointStatus.COMPLETE),
    ]
    assert open_storage(place).read("LATEST") == b"step-00000003.lease1\n"
    assert not verify_files(open_storage(place), seen[0].folder, seen[0].manifest, seen[0].manifest.files)
    assert ranks.run(tmp_path / "b", 2, training.resume_only, place) == [(3, []), (3, [])]
    assert not list((tmp_path / "scratch").iterdir()), "nothing stays on this machine"


def test_a_stale_listing_hides_no_checkpoint(tmp_path, place, store):
    ranks.run(tmp_path / "a", 2, training.train, place, 3)
    store(hide=folder_of(3))
    assert ranks.run(tmp_path / "b", 2, training.resume_only, place) == [(3, []), (3, [])]
    assert ranks.run(tmp_path / "c", 2, training.train, place, 4) == [(3, []), (3, [])]


def test_a_save_without_manifest_is_skipped_without_a_message_and_removed(tmp_path, place):
    ranks.run(tmp_path / "a", 2, training.train, place, 2)
    open_storage(place).remove(f"{saved_folder(place, 2)}/manifest.json")
    assert ranks.run(tmp_path / "b", 2, training.resume_only, place) == [(1, []), (1, [])]
    assert [(each.step, each.state) for each in list_checkpoints(open_storage(place))] == [
        (2, CheckpointStatus.UNFINISHED),
        (1, CheckpointStatus.COMPLETE),
    ]
    ranks.run(tmp_path / "c", 2, training.train, place, 1)
    assert [each.step for each in list_checkpoints(open_storage(place))] == [1]


def test_a_changed_object_is_detected_and_the_older_checkpoint_is_used(tmp_path, place):
    ranks.run(tmp_path / "a", 2, training.train, place, 2)
    there = open_storage(place)
    name = f"{saved_folder(place, 2)}/__1_0.distcp"
    data = bytearray(there.read(name))
    data[len(data) // 2] ^= 4
    there.write(name, bytes(data))
    ((step, skipped), _) = ranks.run(tmp_path / "b", 2, training.resume_only, place)
    assert step == 1
    assert skipped[0].startswith(
        f"{place}: skipping step-00000002.lease1: __1_0.distcp was changed after it was written (CRC-32"
    )


def test_a_second_run_at_the_same_place_is_refused(tmp_path, place):
    check_refusal_of_a_second_run(tmp_path, place)


def test_a_late_commit_of_a_dead_generation_damages_nothing(place, monkeypatch):
    check_late_commit(open_storage(place), monkeypatch)


def test_a_lease_is_created_by_one_of_many(place):
    storage = open_storage(place)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: storage.create("lease", str(number).encode()), range(8)))
    assert won.count(True) == 1
    assert storage.read("lease") == str(won.index(True)).encode()
    assert storage.create("lease", storage.read("lease")), "as after an answer that was lost on the way"


@pytest.mark.parametrize("how", ["ignored", "refused"])
def test_a_store_without_conditional_writes_is_used_with_a_warning(place, store, monkeypatch, how):
    monkeypatch.setattr(writer_lease, "_SETTLE_S", 0.0)
    store(conditions=how)
    messages = []
    first = take_writer_lease(open_storage(place), identify_holder({}, job="a"), messages.append)
    assert "the store lacks conditional writes (If-None-Match)" in messages[0]
    first.check()
    stranger = identify_holder({}, job="b")
    with pytest.raises(LeaseHeldError, match="is in use by another run"):
        take_writer_lease(open_storage(place), stranger, messages.append)
    first.release()
    second = take_writer_lease(open_storage(place), stranger, messages.append)
    with pytest.raises(LeaseLostError):
        first.check()
    second.release()
