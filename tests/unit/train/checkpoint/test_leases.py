"""Leases of a storage: decisions, and two processes at one folder. No test waits: clocks are those of the test."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import wire
from windlass.train.checkpoint.lease_holder import identify_holder
from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.errors import LeaseHeldError, LeaseLostError
from windlass.train.checkpoint.store.layout import CONTROL, lease_file, reader_file, removal_mark
from windlass.train.checkpoint.store.lease import (
    Holder,
    LeaseObservation,
    LeaseObserver,
    LeaseRecord,
    ProcessIdentity,
    ProcessLife,
    judge_lease,
    parse_record,
)
from windlass.train.checkpoint.store.lease import (
    LeaseVerdict as Verdict,
)
from windlass.train.checkpoint.store.lease_renewal import LeaseRenewal
from windlass.train.checkpoint.store.process_identity import identify_process, process_life
from windlass.train.checkpoint.store.reader_lease import CheckpointRemover, hold_for_reading
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.writer_lease import Timing, take_writer_lease

UNSEEN, RENEWED, EXPIRED = LeaseObservation(0.0, False), LeaseObservation(5.0, True), LeaseObservation(60.0, True)


def holder(job="digits-1", generation=1, pid=7):
    """A process of another machine, so that only its lease tells whether it lives."""
    return Holder(job, generation, ProcessIdentity("node-1", "another boot", pid, 100), 1_700_000_000_000)


RECORD = LeaseRecord(holder(), "nonce")


@pytest.mark.parametrize(
    ("record", "me", "life", "seen", "verdict"),
    [
        (None, holder("other"), ProcessLife.UNKNOWN, UNSEEN, Verdict.FREE),
        (replace(RECORD, is_released=True), holder("other"), ProcessLife.ALIVE, RENEWED, Verdict.FREE),
        (RECORD, holder("other"), ProcessLife.GONE, UNSEEN, Verdict.FREE),
        (RECORD, holder("other"), ProcessLife.ALIVE, EXPIRED, Verdict.HELD),
        (RECORD, holder("other"), ProcessLife.UNKNOWN, UNSEEN, Verdict.UNDECIDED),
        (RECORD, holder("other"), ProcessLife.UNKNOWN, LeaseObservation(59.9, False), Verdict.UNDECIDED),
        (RECORD, holder("other"), ProcessLife.UNKNOWN, RENEWED, Verdict.HELD),
        (RECORD, holder("other"), ProcessLife.UNKNOWN, EXPIRED, Verdict.FREE),
        (RECORD, holder(generation=2, pid=8), ProcessLife.ALIVE, RENEWED, Verdict.FREE),
        (RECORD, holder(), ProcessLife.UNKNOWN, RENEWED, Verdict.FREE),
        (RECORD, holder(pid=8), ProcessLife.UNKNOWN, RENEWED, Verdict.HELD),
        (
            LeaseRecord(holder(generation=3)),
            holder(generation=2, pid=8),
            ProcessLife.UNKNOWN,
            RENEWED,
            Verdict.HELD,
        ),
        (LeaseRecord(lease.UNKNOWN_HOLDER), lease.UNKNOWN_HOLDER, ProcessLife.UNKNOWN, UNSEEN, Verdict.UNDECIDED),
    ],
)
def test_a_lease_is_free_when_its_holder_is_dead_or_an_earlier_start_of_the_same_job(record, me, life, seen, verdict):
    assert judge_lease(record, me, life, seen) is verdict


def test_a_lease_expires_by_the_clock_of_the_observer_since_the_last_change():
    observer = LeaseObserver()
    assert observer.observe("a", b"1", 1000.0) == (0.0, False)
    assert observer.observe("a", b"1", 1059.0) == (59.0, False)
    assert observer.observe("a", b"2", 1059.5) == (0.0, True)
    assert observer.observe("a", b"2", 1119.5) == (60.0, True)
    assert observer.observe("b", b"2", 1119.5) == (0.0, False)


@given(st.text(), st.integers(0, 10**9), st.integers(0, 10**9), st.booleans())
def test_a_record_is_read_as_it_was_written(job, generation, renewals, is_released):
    record = LeaseRecord(holder(job, generation), "nonce", 20.0, renewals, is_released)
    assert parse_record(record.to_json()) == record


@given(st.binary() | st.sampled_from([b"{}", b"[]", b'{"holder": 1}', RECORD.to_json()[:-2], RECORD.to_json()[2:]]))
def test_a_file_that_is_no_record_has_an_unknown_holder(data):
    assert parse_record(data) == LeaseRecord(lease.UNKNOWN_HOLDER)


def test_the_job_and_its_generation_are_those_of_the_variables():
    named = {wire.JOB_ID: "digits-7", wire.STATE_ID: "f3", wire.GENERATION: "4", "TORCHELASTIC_RUN_ID": "none"}
    assert (identify_holder(named).job, identify_holder(named).generation) == ("digits-7@f3", 4)
    assert str(identify_holder(named)).startswith(f"job digits-7, generation 4, process {os.getpid()} on ")
    elastic = {"TORCHELASTIC_RUN_ID": "run", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert (identify_holder(elastic).job, identify_holder(elastic).generation) == ("run", 3)
    pod = {wire.JOB_UID: "0f-3", wire.GENERATION: "2"}
    assert identify_holder(pod).job == "@0f-3", "the pods of a PyTorchJob have no other id"
    assert identify_holder({**pod, wire.JOB_ID: "digits"}).job == "digits@0f-3"
    assert identify_holder({"TORCHELASTIC_RUN_ID": "none"}, job="survivors'").job == "survivors'"
    assert str(identify_holder({})).startswith(f"process {os.getpid()} on "), "an id of chance is not shown"


def test_a_run_that_was_submitted_twice_does_not_depose_itself_by_a_higher_generation():
    """Two agents have the same --rdzv-id; the second gang has failed once before it came to its checkpoints."""
    variables = [{"TORCHELASTIC_RUN_ID": "run", wire.GANG_SECRET: secret * 32} for secret in "ab"]
    first = replace(identify_holder({**variables[0], wire.GENERATION: "1"}), process=holder().process)
    second = identify_holder({**variables[1], wire.GENERATION: "2"})
    assert judge_lease(LeaseRecord(first), second, ProcessLife.UNKNOWN, RENEWED) is Verdict.HELD
    later = identify_holder({**variables[0], wire.GENERATION: "2"})
    assert judge_lease(LeaseRecord(first), later, ProcessLife.UNKNOWN, RENEWED) is Verdict.FREE
    assert str(second).startswith("job run, generation 2, ")


def test_a_process_of_this_machine_is_known_to_live_or_not():
    me = identify_process()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert process_life(me) is ProcessLife.ALIVE
    assert process_life(me._replace(started=me.started + 1)) is ProcessLife.GONE, "another process has its number"
    assert process_life(me._replace(pid=child)) is ProcessLife.GONE, "a zombie does not live"
    os.waitpid(child, 0)
    assert process_life(me._replace(pid=child)) is ProcessLife.GONE
    assert process_life(me._replace(machine="another boot")) is ProcessLife.UNKNOWN
    assert process_life(me._replace(machine="")) is ProcessLife.UNKNOWN


@pytest.fixture
def place(tmp_path):
    return open_storage(str(tmp_path / "run"))


class Clock:
    """A clock that goes on only while a process pauses, and then calls `on_pause`."""

    def __init__(self, on_pause=lambda: None):
        self.now, self._on_pause = 0.0, on_pause

    def pause(self, seconds):
        self.now += seconds
        self._on_pause()

    @property
    def timing(self):
        return Timing(lambda: self.now, self.pause)


@pytest.fixture
def take(place):
    """Takes the lease of the place as a holder; every lease is released at the end."""
    taken = []

    def take_as(me, clock=None, report=print):
        taken.append(take_writer_lease(place, me, report, (clock or Clock()).timing))
        return taken[-1]

    yield take_as
    for each in taken:
        each.abandon()


def test_a_second_run_is_refused_with_the_name_of_the_first(take, place):
    first, messages = take(holder()), []
    clock = Clock(first._renew)
    with pytest.raises(LeaseHeldError) as refused:
        take(holder("other", pid=9), clock, messages.append)
    assert "is in use by another run: job digits-1, generation 1, process 7 on node-1, since 20" in str(refused.value)
    assert "end that run, or use another location for this one" in str(refused.value)
    assert clock.now < 60
    assert "waiting up to 60 s to see whether it still runs" in messages[0]
    first.check()


def test_the_lease_of_a_dead_run_of_another_machine_is_taken_after_its_duration(take):
    first, clock, messages = take(holder()), Clock(), []
    second = take(holder("other", pid=9), clock, messages.append)
    assert (first.token, second.token) == (1, 2)
    assert 60 <= clock.now < 62
    assert len(messages) == 1
    with pytest.raises(LeaseLostError, match="was taken by job other, generation 1, process 9 on node-1"):
        first.check()
    second.check()


def test_a_later_start_of_the_same_job_takes_over_at_once_and_the_earlier_one_notices(take):
    first, clock = take(holder()), Clock()
    second = take(holder(generation=2, pid=9), clock)
    assert clock.now == 0
    first._renew()  # a late renewal
    second.check()
    with pytest.raises(LeaseLostError, match="taken by job digits-1, generation 2"):
        first.check()
    with pytest.raises(LeaseLostError):
        first.advance()
    with pytest.raises(LeaseHeldError, match="generation 2"):
        take(holder(generation=1, pid=7), Clock(second._renew))


def test_a_released_lease_is_taken_at_once(take):
    first, clock = take(holder()), Clock()
    first.release()
    assert take(holder("other", pid=9), clock).token == 2
    assert clock.now == 0


def test_of_two_runs_that_take_a_lease_at_the_same_instant_one_gets_it(take, place, monkeypatch):
    really, faster = type(place).create, []

    def create(self, name, data):
        if not faster:
            faster.append(None)
            faster[0] = take(holder("faster", pid=8))
        return really(self, name, data)

    monkeypatch.setattr(type(place), "create", create)
    with pytest.raises(LeaseHeldError, match="job faster"):
        take(holder(), Clock(lambda: faster[0]._renew()))  # noqa: PLW0108 - it is taken inside this call
    faster[0].check()


def test_a_renewal_goes_on_after_an_error_of_any_kind():
    """A client library may raise anything. A run whose renewals end silently loses its lease to the next comer."""
    renewals, is_renewed = [], threading.Event()

    def renew():
        renewals.append(1)
        if len(renewals) == 1:
            raise RuntimeError("Event loop is closed")
        is_renewed.set()

    renewal = LeaseRenewal(renew, 0.04)
    assert is_renewed.wait(10)
    renewal.stop()


def test_an_advanced_lease_has_the_next_token(take):
    first = take(holder())
    first.advance()
    assert first.token == 2
    first.check()


def test_a_lease_whose_files_a_person_has_removed_is_written_again(take, place):
    first = take(holder())
    place.remove(CONTROL)
    first.check()
    assert place.read(lease_file(1)) is not None


class Careless:
    """A storage without conditional writes: `create` replaces what is there."""

    def __init__(self, storage):
        self._storage = storage

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def create(self, name, data):
        self._storage.write(name, data)
        return True


def test_a_store_without_conditional_writes_is_used_with_a_warning(place):
    messages, clock = [], Clock()
    held = take_writer_lease(Careless(place), holder(), messages.append, clock.timing)
    held.abandon()
    assert "lacks conditional writes (If-None-Match)" in messages[0]
    held.check()


def test_the_last_of_two_writers_keeps_the_lease_of_a_store_without_conditional_writes(place):
    last = LeaseRecord(holder("last", pid=9), "another nonce")
    clock = Clock(lambda: place.write(lease_file(1), replace(last, renewals=int(clock.now * 10)).to_json()))
    with pytest.raises(LeaseHeldError, match="job last"):
        take_writer_lease(Careless(place), holder(), print, clock.timing)


def names(place):
    return sorted(place.sizes(CONTROL))


def save(place, folder="step-00000100.lease1"):
    place.write(f"{folder}/manifest.json", b"{}")
    return folder


def test_a_checkpoint_that_is_read_is_not_removed_before_the_reader_ends(place):
    folder, remover = save(place), CheckpointRemover(place)
    with hold_for_reading(place, folder, print) as is_there:
        assert is_there
        assert remover.remove(folder) is Verdict.HELD
        assert remover.reader.process == identify_process()
    assert remover.remove(folder) is Verdict.FREE
    assert names(place) == []
    assert folder not in place.names()


def test_the_lease_of_a_dead_reader_expires_by_the_clock_of_the_remover(place):
    folder, clock = save(place), Clock()
    remover = CheckpointRemover(place, lambda: clock.now)
    place.write(reader_file(folder, "1"), RECORD.to_json())
    assert remover.remove(folder) is Verdict.UNDECIDED
    clock.now = 59.0
    place.write(reader_file(folder, "1"), replace(RECORD, renewals=1).to_json())
    assert remover.remove(folder) is Verdict.HELD
    clock.now = 118.0
    assert remover.remove(folder) is Verdict.HELD
    clock.now = 120.0
    assert remover.remove(folder) is Verdict.FREE
    assert names(place) == []


def test_a_reader_that_comes_between_the_look_and_the_removal_is_seen(place, monkeypatch):
    folder, remover = save(place), CheckpointRemover(place)
    really = type(place).create

    def create(self, name, data):
        if name.startswith(f"{CONTROL}/removing-"):
            really(self, reader_file(folder, "1"), RECORD.to_json())
        return really(self, name, data)

    monkeypatch.setattr(type(place), "create", create)
    assert remover.remove(folder) is Verdict.UNDECIDED
    assert names(place) == [f"reading-{folder}-1"]


def test_a_reader_is_seen_although_another_file_vanishes_while_the_leases_are_listed(place, monkeypatch):
    """As the file beside a lease that is being renewed, which is renamed four times a minute."""
    folder, really = save(place), os.scandir
    place.write(reader_file(folder, "1"), RECORD.to_json())
    renewed = Path(place.location) / CONTROL / "lease-00000001.tmp"

    def list_files(path):
        renewed.write_bytes(b"")
        with really(path) as entries:
            found = list(entries)
        renewed.unlink(missing_ok=True)
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", list_files)
    assert CheckpointRemover(place).remove(folder) is Verdict.UNDECIDED
    assert names(place) == [f"reading-{folder}-1"]


def test_a_reader_that_comes_after_the_mark_of_a_removal_is_told(place):
    folder = save(place)
    place.create(f"{CONTROL}/removing-{folder}", b"")
    with hold_for_reading(place, folder, print) as is_there:
        assert not is_there


def test_the_mark_of_a_removal_that_goes_on_stays_when_another_process_starts(place, monkeypatch):
    """As that of `checkpoint prune` beside a run that starts."""
    folder, really, seen = save(place), type(place).remove, []

    def remove(self, name):
        if name == folder:
            CheckpointRemover(place).remove_stale_marks()
            seen.extend(names(place))
        really(self, name)

    monkeypatch.setattr(type(place), "remove", remove)
    assert CheckpointRemover(place).remove(folder) is Verdict.FREE
    assert seen == [f"removing-{folder}"]
    assert names(place) == []


def test_the_mark_of_a_killed_process_of_this_machine_is_removed_at_once(place):
    child = subprocess.Popen(["true"])
    process = identify_process()._replace(pid=child.pid)
    child.wait()
    place.write(removal_mark("step-00000100.lease1"), LeaseRecord(Holder("", 0, process, 0), "").to_json())
    CheckpointRemover(place).remove_stale_marks()
    assert names(place) == []


@pytest.mark.parametrize("data", [RECORD.to_json(), b""])
def test_the_mark_of_a_dead_process_of_another_machine_expires_by_the_clock_of_the_remover(place, data):
    clock = Clock()
    remover = CheckpointRemover(place, lambda: clock.now)
    place.write(removal_mark("step-00000100.lease1"), data)
    remover.remove_stale_marks()
    clock.now = 59.0
    remover.remove_stale_marks()
    assert names(place) == ["removing-step-00000100.lease1"]
    clock.now = 60.0
    remover.remove_stale_marks()
    assert names(place) == []


def test_of_two_removals_of_one_checkpoint_the_second_leaves_the_mark_of_the_first(place):
    folder = save(place)
    place.create(removal_mark(folder), RECORD.to_json())
    assert CheckpointRemover(place).remove(folder) is Verdict.FREE
    assert names(place) == [f"removing-{folder}"]


def test_a_storage_that_cannot_be_written_is_read_without_a_lease_and_with_a_warning(tmp_path):
    (tmp_path / "run").write_text("")
    messages = []
    with hold_for_reading(open_storage(str(tmp_path / "run")), "step-00000100", messages.append) as is_there:
        assert is_there
    assert "step-00000100 is read without a lease, and may be removed meanwhile: " in messages[0]
