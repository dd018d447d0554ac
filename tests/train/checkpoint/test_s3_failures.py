"""Checkpoints in a real S3 API that fails, is slow, or refuses."""

from __future__ import annotations

import pytest
import ranks
import training

from windlass.train.checkpoint.store.errors import StorageError
from windlass.train.checkpoint.store.inventory import CheckpointStatus, incomplete_folders, list_checkpoints
from windlass.train.checkpoint.store.layout import folder_of
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.verification import read_manifest

pytestmark = pytest.mark.timeout(300)


def test_failures_of_a_quarter_of_all_requests_are_retried(tmp_path, place, store):
    store(errors=0.25, seed=5)
    ranks.run(tmp_path / "a", 2, training.train, place, 1)
    assert ranks.run(tmp_path / "b", 2, training.train, place, 2) == [(1, []), (1, [])]
    store()
    assert [each.step for each in list_checkpoints(open_storage(place)) if each.state is CheckpointStatus.COMPLETE] == [
        2,
        1,
    ]


def test_a_slow_store_is_waited_for_in_the_background(tmp_path, place, store):
    store(slow=0.05)
    ranks.run(tmp_path / "a", 2, training.train, place, 2)
    assert ranks.run(tmp_path / "b", 2, training.resume_only, place) == [(2, []), (2, [])]


def test_an_interrupted_upload_is_retried(tmp_path, place, store, multipart_uploads):
    store(cut=3)
    ranks.run(tmp_path / "a", 2, training.train, place, 1)
    assert ranks.run(tmp_path / "b", 2, training.resume_only, place) == [(1, []), (1, [])]


def test_an_unfinished_upload_is_no_checkpoint(tmp_path, place, store, multipart_uploads, single_try):
    ranks.run(tmp_path / "a", 2, training.train, place, 1)
    store(cut=10_000)
    for output, code in ranks.ended(ranks.start(tmp_path / "b", 2, training.train, place, 2)):
        assert code == 1
        assert f"{place}: writing step-00000002.lease2/__" in output
        assert "it does not answer: check the network and the address (AWS_ENDPOINT_URL)" in output
    store()
    assert not incomplete_folders(open_storage(place)), "what had arrived is removed again"
    assert ranks.run(tmp_path / "c", 2, training.resume_only, place) == [(1, []), (1, [])]


def test_missing_permissions_on_a_bucket_are_reported_before_training(tmp_path, place, store):
    store(deny=["PUT", "POST"])
    for output, code in ranks.ended(ranks.start(tmp_path / "a", 2, training.train, place, 1)):
        assert code == 1
        assert (
            f"{place}: writing .windlass/lease-00000001: Access Denied\npermission denied: grant reading, writing"
            in output
        )


@pytest.mark.parametrize("words", ["s3://no-such-bucket/run", "s3://no-such-bucket"])
def test_a_missing_bucket_is_reported_before_training(tmp_path, words, store):
    for output, code in ranks.ended(ranks.start(tmp_path / "a", 2, training.train, words, 1)):
        assert code == 1
        assert f"{words}: " in output
        assert "it does not exist: create the bucket or the folder first, or correct its name" in output


def test_a_store_that_does_not_answer_is_reported_with_its_address(monkeypatch, store, single_try):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(
        StorageError, match=r"it does not answer: check the network and the address \(AWS_ENDPOINT_URL\)"
    ):
        read_manifest(open_storage("s3://bucket/x"), folder_of(1))
