"""Checkpoints in a real S3 API with injected failures."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ranks
import training
from fault_injection.faulty_storage import CREDENTIALS, saved_folder
from test_two_writers import check_late_commit, check_refusal_of_a_second_run

from windlass.train.checkpoint.lease_holder import identify_holder
from windlass.train.checkpoint.store import writer_lease
from windlass.train.checkpoint.store.errors import LeaseHeldError, LeaseLostError, StorageError
from windlass.train.checkpoint.store.inventory import CheckpointStatus, incomplete_folders, list_checkpoints
from windlass.train.checkpoint.store.layout import folder_of
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.verification import read_manifest, verify_files
from windlass.train.checkpoint.store.writer_lease import take_writer_lease

pytestmark = pytest.mark.timeout(300)
MIB = 1 << 20


@pytest.fixture(scope="module")
def port():
    """The address of a store for this file."""
    pytest.importorskip("moto", reason="S3 is played by moto")
    command = [sys.executable, Path(__file__).with_name("s3_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield int(server.stdout.readline())
        server.stdin.close()


@pytest.fixture
def store(port, monkeypatch, tmp_path):
    """A bucket; the yielded function sets its faults."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        **CREDENTIALS,
        "WINDLASS_SCRATCH": str(tmp_path / "scratch"),
    }.items():
        monkeypatch.setenv(name, value)

    def fail(**faults):
        asked(port, "POST", "/-/faults", json.dumps(faults))

    fail()
    asked(port, "PUT", "/bucket")
    yield fail
    fail()


@pytest.fixture
def place(store, request):
    return f"s3://bucket/{abs(hash(request.node.name))}/run"


def asked(port, method, path, body=""):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body)
    assert connection.getresponse().status < 300


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


@pytest.fixture
def single_try(monkeypatch):
    """The S3 client tries once, so that retries are those of Windlass."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)


@pytest.fixture
def multipart_uploads(monkeypatch):
    """Files of 5 MiB and more are uploaded in parts, as files of 100 MiB are by default."""
    core = pytest.importorskip("s3fs.core")
    monkeypatch.setattr(core, "calculate_chunksize", lambda *_size, **_words: 5 * MIB)
    monkeypatch.setattr(training, "WIDTH", 3 * MIB)


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
