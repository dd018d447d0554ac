"""Records of a turn, and the time at which a pod's log is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.port import Changes, Transition
from windlass.core.model.status import Failure, FailureClass, Phase, Target
from windlass.server.operator.history import recorder as recorder_module
from windlass.server.operator.history.entries import HistoryEntry
from windlass.server.operator.history.recorder import HistoryRecorder


class Notes:
    """A fake history that stores its entries."""

    def __init__(self) -> None:
        self.entries: list[HistoryEntry] = []

    def note(self, entry: HistoryEntry) -> None:
        self.entries.append(entry)

    @property
    def logs(self) -> dict[int, str]:
        return {line.rank: line.text or line.missing for entry in self.entries for line in entry.lines}


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_PAUSES_S", (0.0, 0.0))


@pytest.fixture
def turn(cluster, notes):
    """Commit states one after another, each after a change of the cluster."""

    def run(*steps) -> None:
        async def record_and_check() -> None:
            recorder = HistoryRecorder(cluster, notes)
            for state, change in steps:
                change()
                changes = Changes(states=(state,), transitions=(Transition(state.id, 1, "E", "", "", ""),))
                recorder.on_commit_start(changes)
                recorder.on_commit_end(changes)
                for _ in range(20):
                    await asyncio.sleep(0)
            await recorder.close()

        asyncio.run(record_and_check())

    return run


def as_it_is() -> None:
    """The cluster does not change."""


def test_no_log_of_a_running_gang_is_read(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0)]
    turn((state(), as_it_is))
    assert (len(notes.entries), notes.logs, cluster.asked) == (1, {}, [])


def test_a_log_is_read_once_when_its_pod_has_ended(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0), pod("worker", 0)]
    cluster.logs["digits-master-0"] = b"loss 0.1\n\xff"
    turn((state(succeeded_members=1), as_it_is), (state(succeeded_members=1, infrastructure_failures=1), as_it_is))
    assert notes.logs == {0: "loss 0.1\n�"}
    [(path, asked)] = cluster.asked
    assert path == "/api/v1/namespaces/team/pods/digits-master-0/log"
    assert (asked["container"], asked["tailLines"]) == ("sidecar", "500")


def test_the_end_of_a_log_with_long_lines_is_kept(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=1)]
    cluster.logs["digits-master-0"] = b"x" * (300 << 10) + b"\nthe cause"
    turn((state(succeeded_members=1), as_it_is))
    assert (len(notes.logs[0]), notes.logs[0][-9:]) == (64 << 10, "the cause")


def test_the_logs_of_a_stopped_gang_are_read_before_its_pods_are_deleted(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0), pod("worker", 0, code=3)]
    cluster.logs = {"digits-master-0": b"was stopped", "digits-worker-0": b"boom"}
    stopped = state(phase=Phase.RESTARTING, target=Target.RESTART)
    turn((stopped, as_it_is), (replace(stopped, status=replace(stopped.status, is_gone=True)), cluster.found.clear))
    assert notes.logs == {0: "was stopped", 1: "boom"}


def test_an_ended_job_is_recorded_even_if_its_object_is_deleted_by_the_commit(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0)]
    ended = state(phase=Phase.SUCCEEDED, finished_at=2)
    turn((ended, as_it_is))
    [first, *_] = notes.entries
    assert first.ended == (ended,)
    assert [member.task.pod for member in first.members] == ["digits-master-0"]
    assert [(entry.created_at, entry.transition.job_id) for entry in first.transitions] == [
        (ended.status.created_at, ended.id)
    ]


def test_a_state_that_could_not_be_committed_is_not_recorded(cluster, notes, state, pod):
    """Its pods are recorded with the commit that succeeds."""
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0)]
    ended = state(phase=Phase.SUCCEEDED, finished_at=2)

    async def record() -> None:
        recorder = HistoryRecorder(cluster, notes)
        recorder.on_commit_start(Changes(states=(ended,)))
        recorder.on_commit_end(Changes())
        assert (notes.entries, recorder.pending_reads) == ([], 0)
        recorder.on_commit_start(Changes(states=(ended,)))
        recorder.on_commit_end(Changes(states=(ended,)))
        await recorder.close()

    asyncio.run(record())
    assert [member.task.pod for member in notes.entries[0].members] == ["digits-master-0"]


@pytest.mark.parametrize(
    ("trouble", "message", "asked"),
    [
        (ApiError(404, "NotFound", "no pod"), "its log could not be read: no pod", 3),
        (ApiError(500, "", "kubelet is away"), "its log could not be read: kubelet is away", 3),
        (Unreachable("no connection"), "its log could not be read: no connection", 1),
    ],
)
def test_an_unreadable_log_has_a_reason(cluster, notes, state, pod, turn, trouble, message, asked):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0)]
    cluster.logs["digits-master-0"] = trouble
    turn((state(succeeded_members=1), as_it_is))
    assert (notes.logs, len(cluster.asked)) == ({0: message}, asked)


def test_the_log_of_a_pod_that_is_gone_is_not_asked_for_again(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0)]
    cluster.pods.get = lambda *_: None  # the watch has seen its deletion since
    turn((state(succeeded_members=1), as_it_is))
    assert len(cluster.asked) == 1
    assert notes.logs == {0: "the pod was gone before its log could be read"}


def test_a_log_is_read_from_a_kubelet_that_knows_its_pods_a_little_later(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("master", 0, code=0)]
    cluster.troubles = [ApiError(404, "NotFound", "no pod")]
    cluster.logs["digits-master-0"] = b"loss 0.1\n"
    turn((state(succeeded_members=1), as_it_is))
    assert notes.logs == {0: "loss 0.1\n"}


@pytest.mark.parametrize(("lines", "is_all"), [(20_000, True), (200_000, False)])
def test_the_start_of_a_long_log_is_kept_for_the_diagnosis_of_a_failure(cluster, notes, state, pod, lines, is_all):
    cluster.add(state())
    cluster.found = [pod("worker", 0, code=1)]
    cluster.logs["digits-worker-0"] = b"the cause\n" + b"step 1 loss 0.1\n" * lines
    failed = state(last_failure=Failure(FailureClass.USER, "ExitCode", "code 1", 1), phase=Phase.RESTARTING)

    async def record() -> None:
        recorder = HistoryRecorder(cluster, notes, keeps_starts=True)
        recorder.on_commit_start(Changes(states=(failed,)))
        recorder.on_commit_end(Changes(states=(failed,)))
        await recorder.wait_for_logs(failed.id)
        starts = recorder.take_log_starts(failed.id, 1)
        assert (starts[1].text.startswith("the cause\n"), starts[1].is_all) == (True, is_all)
        assert len(starts[1].text) <= 1 << 20
        assert recorder.take_log_starts(failed.id, 1) == {}

    asyncio.run(record())
    assert "the cause" not in notes.logs[1]


def test_no_start_of_a_log_is_read_when_its_pod_has_succeeded(cluster, notes, state, pod):
    cluster.add(state())
    cluster.found = [pod("worker", 0, code=0)]
    cluster.logs["digits-worker-0"] = b"step 1 loss 0.1\n" * 20_000
    ended = state(phase=Phase.SUCCEEDED, finished_at=2)

    async def record() -> None:
        recorder = HistoryRecorder(cluster, notes, keeps_starts=True)
        recorder.on_commit_start(Changes(states=(ended,)))
        recorder.on_commit_end(Changes(states=(ended,)))
        await recorder.wait_for_logs(ended.id)
        assert recorder.take_log_starts(ended.id, 1) == {}

    asyncio.run(record())
    assert len(cluster.asked) == 1


def test_the_logs_of_a_large_gang_share_the_space(cluster, notes, state, pod, turn):
    cluster.add(state())
    cluster.found = [pod("worker", index, code=0) for index in range(128)]
    cluster.logs = {f"digits-worker-{index}": b"x" * (100 << 10) for index in range(128)}
    turn((state(succeeded_members=1), as_it_is))
    assert {len(log) for log in notes.logs.values()} == {32 << 10}
