from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from windlass.backends.local.name_resolution import NameResolutionError, array_members, choose_only, resolve
from windlass.backends.local.paths import StatePaths, prepare_folder
from windlass.backends.local.state_reader import StateReader, Task
from windlass.backends.local.state_store import Notes, StateStore, SubmissionOrigin, open_store
from windlass.backends.local.submission_origins import clients_of_living_jobs, environment_of
from windlass.backends.port import BackendError, Changes, Transition
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import ArrayMember, Job, RestartPolicy, Role, Toleration
from windlass.core.model.reasons import CauseCount, Reason, Verdict
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Placement, Status
from windlass.jobs.secret_values import HIDDEN


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return prepare_folder(tmp_path / "state")


@pytest.fixture
def store(paths: StatePaths) -> Iterator[StateStore]:
    opened = open_store(paths)
    yield opened
    opened.close()


def job(name: str = "digits", **fields: object) -> Job:
    return Job(name, (Role(replicas=2, resources={"gpu": 1}, command=("python", "train.py")),), **fields)


def state(number: int, name: str = "digits", finished: int | None = None, **fields: object) -> JobState:
    new = create_state(f"{name}-{number}", number, job(name, **fields), now=number * 100)
    if finished is None:
        return new
    return replace(new, status=replace(new.status, phase=Phase.SUCCEEDED, finished_at=finished))


def ended(number: int, name: str = "digits", **fields: object) -> JobState:
    status = Status(Phase.SUCCEEDED, created_at=1000 + number, finished_at=2000 + number)
    return replace(state(number, name, **fields), status=status)


def with_status(found: JobState, **changes: object) -> JobState:
    return replace(found, status=replace(found.status, **changes))


def commit_states(store: StateStore, *states: JobState) -> None:
    store.commit(Changes(states=states), Notes())


def test_a_job_is_read_as_it_was_written(store):
    full = state(
        1,
        restart=RestartPolicy(user_limit=3, fatal_exit_codes=(9,)),
        labels={"größe": "漢字"},
        array=ArrayMember("digits-1", 3, 2),
    )
    role = replace(full.job.roles[0], tolerations=(Toleration("gpu"),), node_selector={"zone": "a"}, env={"A": "b"})
    status = replace(
        full.status,
        placement=Placement({"worker": ("n1", "n2")}),
        succeeded_members=2**70,
        last_failure=Failure(FailureClass.USER, "ExitCode", "rank 0", 5, exit_code=1),
    )
    full = replace(full, job=replace(full.job, roles=(role,)), status=status)
    commit_states(store, full)
    assert store.job("digits-1") == full
    assert store.job("digits-2") is None


def test_a_later_state_replaces_the_earlier_one(store):
    commit_states(store, state(1))
    commit_states(store, state(1, finished=900))
    assert len(store.jobs()) == 1
    assert store.alive() == []
    found = store.job("digits-1")
    assert found is not None
    assert found.status.phase is Phase.SUCCEEDED


GANG = Placement({"worker": tuple(f"node-{number}" for number in range(5_000))})


def statements(store: StateStore, *states: JobState) -> list[str]:
    """Returns the statements, with their values, that a commit of these states executes."""
    found: list[str] = []
    store._connection.set_trace_callback(found.append)
    commit_states(store, *states)
    store._connection.set_trace_callback(None)
    return found


def test_a_placement_is_written_only_when_it_changes(paths, store):
    running = with_status(state(1), phase=Phase.RUNNING, placement=GANG)
    assert sum("node-4999" in text for text in statements(store, running)) == 1
    done = with_status(running, succeeded_members=0b1)
    assert sum(map(len, statements(store, done))) < 1_000
    shrunk = Placement({"worker": GANG.nodes["worker"][:4_000]})
    resized = with_status(done, resize_to=shrunk)
    assert sum("node-4999" in text for text in statements(store, resized)) == 1
    assert store.job("digits-1") == resized
    store.close()

    again = open_store(paths)
    (recovered,) = again.recoverable()
    assert recovered == resized
    assert sum(map(len, statements(again, with_status(recovered, succeeded_members=0b11)))) < 1_000
    statements(again, with_status(recovered, placement=None, resize_to=None, phase=Phase.QUEUED))
    found = again.job("digits-1")
    assert found is not None
    assert found.status.placement is None
    assert again.rows("SELECT job_id FROM placements") == []
    again.close()


def test_a_placement_of_a_turn_that_failed_is_written_with_the_next(store):
    running = with_status(state(1), phase=Phase.RUNNING, placement=GANG)
    with pytest.raises(BackendError):
        store.commit(Changes(states=(running,)), Notes(meta={"key": None}))
    commit_states(store, running)
    assert store.job("digits-1") == running


def test_a_turn_is_written_whole_or_not_at_all(store):
    broken = Notes(meta={"key": None})  # breaks a constraint, in the last statement of all
    with pytest.raises(BackendError):
        store.commit(Changes(states=(state(1),), transitions=(Transition("digits-1", 5, "A", "", "B", ""),)), broken)
    assert store.job("digits-1") is None
    assert store.transitions("digits-1") == []
    commit_states(store, state(1))
    assert len(store.jobs()) == 1


def test_unfinished_jobs_and_jobs_with_a_ttl_are_recoverable(store):
    commit_states(store, state(1), state(2, finished=300), state(3, finished=400, ttl=1_000), state(4))
    assert [found.id for found in store.recoverable()] == ["digits-1", "digits-3", "digits-4"]


def test_a_forgotten_job_leaves_only_a_note_to_remove_its_logs(store):
    commit_states(store, state(1, ttl=0, finished=5))
    notes = Notes(
        tasks=[Task("digits-1", 1, 0, "worker", 0, "n1")], verdicts={"digits-1": (5, Verdict(Reason.ON_HOLD, ""))}
    )
    store.commit(Changes(transitions=(Transition("digits-1", 5, "A", "", "B", ""),)), notes)
    store.commit(Changes(forgotten=("digits-1",)), Notes())
    assert store.job("digits-1") is None
    assert store.tasks("digits-1") == store.transitions("digits-1") == []
    assert store.verdict("digits-1") is None
    assert store.unremoved() == ["digits-1"]
    store.note(Notes(removed=["digits-1"]))
    assert store.unremoved() == []


def test_ranks_are_stored_with_their_start_and_end(store):
    rows = [Task("digits-1", 2, rank, "worker", rank, "n1", (f"GPU-{rank}",)) for rank in range(2)]
    store.note(Notes(tasks=rows))
    store.note(Notes(started=[(500, 77, "digits-1", 2, 1)], ended=[(None, 9, "killed", "digits-1", 2, 1)]))
    assert store.tasks("digits-1", 2) == [rows[0], replace(rows[1], pid=500, started=77, signal=9, detail="killed")]
    assert store.tasks("digits-1") == store.tasks("digits-1", 2)
    assert store.tasks("digits-1", 1) == []


def test_the_last_nodes_are_those_of_the_last_generation_in_the_order_of_ranks(store):
    rows = [("digits-1", 1, 0, "n9"), ("digits-1", 2, 0, "n5"), ("digits-1", 2, 1, "n4"), ("digits-1", 2, 2, "n5")]
    rows.append(("b-2", 1, 0, "n1"))
    store.note(Notes(tasks=[Task(job_id, number, rank, "worker", 0, node) for job_id, number, rank, node in rows]))
    assert store.last_nodes(["digits-1", "b-2", "c-3"]) == {"digits-1": ["n5", "n4"], "b-2": ["n1"]}


def test_a_submission_origin_is_stored_with_its_job(store):
    origin = SubmissionOrigin({"PATH": "/bin", "NAME": "größe"}, "12:34:boot")
    store.commit(Changes(states=(state(1), state(2))), Notes(origins={"digits-1": origin, "digits-2": origin}))
    assert environment_of(store, "digits-2") == origin.environment
    assert clients_of_living_jobs(store) == {"digits-1": "12:34:boot", "digits-2": "12:34:boot"}
    assert store._connection.execute("SELECT count(*) FROM environments").fetchone() == (1,)
    commit_states(store, state(1, finished=900), state(3))
    assert clients_of_living_jobs(store) == {"digits-2": "12:34:boot"}
    assert environment_of(store, "digits-3") is None


def test_verdicts_are_stored(store):
    verdict = Verdict(Reason.WAITING_FOR_QUOTA, "needs 2", "gpu", 2, 1, 3, 2, (CauseCount("full", 4),), eta=99)
    store.note(Notes(verdicts={"digits-1": (5, verdict)}))
    assert store.verdict("digits-1") == verdict


def test_jobs_are_listed_by_name_phase_user_and_queue(store):
    mine, other = state(2, user="me"), state(3, "gpt", queue="research")
    commit_states(store, state(1, finished=700), mine, other, state(4, finished=600))

    def ids(**filters: object) -> list[str]:
        return [found.id for found in store.jobs(**filters)]

    assert ids() == ["digits-4", "gpt-3", "digits-2", "digits-1"]
    assert ids(limit=1) == ["digits-4"]
    assert ids(name={"digits"}, phases=(Phase.CREATED,)) == ["digits-2"]
    assert ids(user={"me"}) == ["digits-2"]
    assert ids(queue={"research", "prod"}) == ["gpt-3"]
    assert ids(first_come=True) == ["digits-2", "gpt-3"]
    assert [found.id for found in store.history()] == ["digits-1", "digits-4"]
    assert [found.id for found in store.history(since=650)] == ["digits-1"]
    assert [found.id for found in store.history(name="gpt")] == []
    assert ids(name={"digits"}, limit=1) == ["digits-4"]


def test_jobs_that_failed_for_a_reason_are_found_behind_any_number_of_others(store):
    ends = [Status(Phase.FAILED, reason, finished_at=500) for reason in ("Cancelled", "ExitCode", "Cancelled", "")]
    commit_states(
        store, *(replace(state(number), status=status) for number, status in enumerate(ends, start=1)), state(5)
    )

    def ids(**filters: object) -> list[str]:
        return [found.id for found in store.jobs(**filters)]

    assert ids(failed_for={"Cancelled"}, limit=2) == ["digits-3", "digits-1"]
    assert ids(phases={Phase.CREATED}, failed_for={"Cancelled"}) == ["digits-5", "digits-3", "digits-1"]


def test_a_text_resolves_to_an_id_a_name_or_an_array(store):
    commit_states(store, ended(1), state(2), state(3, "sweep", array=ArrayMember("sweep-3", 0)))
    store.commit(
        Changes(states=(replace(state(4, "sweep", array=ArrayMember("sweep-3", 1)), id="sweep-3_1"),)),
        Notes(),
    )
    assert resolve(store, "digits-1") == "digits-1"
    assert resolve(store, "digits") == "digits-2"
    assert resolve(store, "sweep") == "sweep-3"
    assert array_members(store, "sweep-3") == ["sweep-3", "sweep-3_1"]
    with pytest.raises(NameResolutionError, match="no job is called 'digts'; did you mean digits"):
        resolve(store, "digts")
    with pytest.raises(NameResolutionError, match="windlass history"):
        resolve(store, "zzz")


def test_a_living_job_is_meant_before_an_ended_later_one_of_its_name(store):
    commit_states(store, state(1), ended(2), ended(3))
    assert resolve(store, "digits") == "digits-1"
    commit_states(store, ended(1))
    assert resolve(store, "digits") == "digits-3"


def test_a_name_of_several_living_jobs_is_an_error_that_lists_their_ids(store):
    members = [ended(4, array=ArrayMember("digits-4", 0)), state(5, array=ArrayMember("digits-4", 1))]
    commit_states(store, state(1), ended(2), state(3), *members)
    with pytest.raises(NameResolutionError) as refused:
        resolve(store, "digits")
    assert str(refused.value) == "'digits' may be any of 3 living jobs: digits-1, digits-3, digits-4; use an id"
    with pytest.raises(NameResolutionError, match="and 3 more; use an id"):
        choose_only("x", list("abcdefgh"))


def test_a_reader_works_beside_a_writer(paths, store):
    commit_states(store, state(1))
    reader = StateReader.open(paths)
    assert reader is not None
    assert reader.job("digits-1") == store.job("digits-1")
    commit_states(store, state(2))
    assert len(reader.jobs()) == 2
    with pytest.raises(BackendError):
        reader.rows("DELETE FROM jobs")
    reader.close()


def test_a_folder_without_jobs_has_no_reader(tmp_path):
    assert StateReader.open(StatePaths(tmp_path / "nowhere")) is None


def test_every_listing_uses_an_index(store):
    for query in (
        "SELECT id FROM jobs WHERE id = ?",
        "SELECT id FROM jobs WHERE name = ? ORDER BY number DESC, row DESC LIMIT 1",
        "SELECT id FROM jobs WHERE name = ? AND finished_at IS NULL ORDER BY number, row",
        "SELECT id FROM jobs WHERE array_id = ? ORDER BY number, row",
        "SELECT id FROM jobs WHERE finished_at >= ? ORDER BY finished_at DESC LIMIT 5",
        "SELECT at FROM transitions WHERE job_id = ? ORDER BY number",
        "SELECT rank FROM tasks WHERE job_id = ? ORDER BY generation, rank",
    ):
        plan = store._connection.execute(f"EXPLAIN QUERY PLAN {query}", ("x",)).fetchall()
        assert plan[0][3].startswith("SEARCH"), query


def test_the_database_is_private(paths, store):
    assert paths.database.stat().st_mode & 0o777 == 0o600
    assert paths.root.stat().st_mode & 0o777 == 0o700
    assert isinstance(store._connection, sqlite3.Connection)


def _bytes_on_disk(paths):
    return b"".join(file.read_bytes() for file in paths.root.glob("windlass.db*"))


def test_the_secrets_of_an_environment_leave_the_disk_when_its_job_ends(paths, store):
    mine = SubmissionOrigin({"TOKEN": "MARKER-of-one", "PATH": "/bin", "WINDLASS_CHECKPOINTS": "s3://bucket/run"})
    other = SubmissionOrigin({"TOKEN": "MARKER-of-two"})
    store.commit(Changes(states=(state(1), state(2))), Notes(origins={"digits-1": mine, "digits-2": other}))
    commit_states(store, state(3))
    assert b"MARKER-of-one" in _bytes_on_disk(paths)

    commit_states(store, state(1, finished=900))

    assert b"MARKER-of-one" not in _bytes_on_disk(paths)
    assert b"MARKER-of-two" in _bytes_on_disk(paths)
    kept = {"TOKEN": HIDDEN, "PATH": "/bin", "WINDLASS_CHECKPOINTS": "s3://bucket/run"}
    assert environment_of(store, "digits-1") == kept
    commit_states(store, state(1, finished=900))
    commit_states(store, state(2, finished=900))
    assert b"MARKER" not in _bytes_on_disk(paths)
    assert environment_of(store, "digits-2") == {"TOKEN": HIDDEN}
    assert len(store.rows("SELECT text FROM environments")) == 2


def test_a_reader_delays_the_erasure_to_a_later_turn(paths, store):
    origin = SubmissionOrigin({"TOKEN": "MARKER"})
    store.commit(Changes(states=(state(1), state(2))), Notes(origins={"digits-1": origin}))
    reader = sqlite3.connect(paths.database, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM jobs").fetchall()
    commit_states(store, state(1, finished=900))
    assert b"MARKER" in _bytes_on_disk(paths)
    reader.execute("COMMIT")
    reader.close()
    commit_states(store, state(2))
    assert b"MARKER" not in _bytes_on_disk(paths)


def test_an_environment_is_removed_with_the_last_job_that_has_it(store):
    shared = SubmissionOrigin({"TOKEN": "secret"})
    for number in (1, 2):
        store.commit(Changes(states=(state(number),)), Notes(origins={f"digits-{number}": shared}))
    store.commit(Changes(forgotten=("digits-1",)), Notes())
    assert environment_of(store, "digits-2") == {"TOKEN": "secret"}
    store.commit(Changes(forgotten=("digits-2",)), Notes())
    assert store.rows("SELECT text FROM environments") == []
