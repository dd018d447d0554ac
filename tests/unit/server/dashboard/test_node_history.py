"""History of a node: attempts with their times, and the ranks that ended by an error or a signal."""

from pathlib import Path

from windlass.backends.local.paths import prepare_folder
from windlass.backends.local.state_reader import Task
from windlass.backends.local.state_store import Notes, open_store
from windlass.backends.port import Changes, Transition
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.server.dashboard.node_history import attempt_span, read_node_history


def moved(at: int, event: str, before: str, after: str) -> Transition:
    return Transition("job-1", at, event, before, after, "")


HISTORY = (
    moved(0, "Submitted", "Created", "Queued"),
    moved(5, "Started", "Admitted", "Running"),
    moved(8, "MemberExited", "Running", "Restarting"),
    moved(10, "Started", "Restarting", "Running"),
)


def test_an_attempt_lasts_from_its_start_to_the_end_of_its_gang() -> None:
    assert attempt_span(HISTORY, 1) == (5, 8)
    assert attempt_span(HISTORY, 2) == (10, None)
    assert attempt_span(HISTORY[:1], 1) == (None, None)


def test_the_newest_attempt_comes_first_with_its_failed_ranks(tmp_path: Path) -> None:
    paths = prepare_folder(tmp_path / "state")
    store = open_store(paths)
    state = create_state("job-1", 1, Job("job", (Role(command=("true",)),)), 0)
    tasks = [Task("job-1", generation, rank, "worker", rank, "ab"[rank]) for generation in (1, 2) for rank in (0, 1)]
    ended = [(1, None, "", "job-1", 1, 0)]
    store.commit(Changes(states=(state,), transitions=HISTORY), Notes(tasks=tasks, ended=ended))
    found = [(row["generation"], row["ranks"], row["failed"], row["ended_at"]) for row in read_node_history(paths, "a")]
    store.close()
    assert found == [(2, 1, 0, None), (1, 1, 1, 8)]


def test_a_node_without_a_past_has_no_rows(tmp_path: Path) -> None:
    assert read_node_history(prepare_folder(tmp_path / "state"), "a") == []
