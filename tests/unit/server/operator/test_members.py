"""Pods as the members of a job."""

from types import SimpleNamespace

from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_tasks import PodTask, choose_container, merge_tasks


def member_rows(cluster, state):
    return [(task.rank, task.role, task.replica, task.node, task.code) for task, _ in list_members(cluster, state)]


def test_members_are_counted_over_the_gang_in_the_order_of_roles(cluster, state, pod):
    job = cluster.add(state())
    cluster.found = [pod("worker", 1, node="n2", code=3), pod("worker", 0), pod("master", 0, code=0)]
    assert member_rows(cluster, job) == [
        (0, "master", 0, "n1", 0),
        (1, "worker", 0, "n1", None),
        (2, "worker", 1, "n2", 3),
    ]
    [*_, (last, _)] = list_members(cluster, job)
    assert last.detail == "digits-worker-1 on n2 exited with code 3"


def test_a_pod_without_a_node_is_no_task(cluster, state, pod):
    job = cluster.add(state())
    cluster.found = [pod("master", 0, node=""), pod("worker", 0)]
    assert [each[1] for each in member_rows(cluster, job)] == ["worker"]


def test_the_pod_of_a_launchers_job_is_a_member(cluster, state, pod):
    job = cluster.add(state())
    launcher = pod("launcher", 0, labels={GENERATION: "1", "training.kubeflow.org/job-role": "launcher"})
    cluster.launched = [launcher]
    assert [each[1:3] for each in member_rows(cluster, job)] == [("launcher", 0)]


def test_an_external_gang_has_its_members_in_their_order(cluster, state, pod):
    job = state(phase=Phase.RUNNING, generation=1)
    bare = [pod(role, index, labels={}) for role, index in (("a", 7), ("b", 8), ("c", 9))]
    cluster.external_gang = SimpleNamespace(job=job.job, pods=bare)
    cluster.found = bare[:2]
    assert member_rows(cluster, job) == [(0, "master", 0, "n1", None), (1, "worker", 0, "n1", None)]
    assert [task.generation for task, _ in list_members(cluster, job)] == [1, 1]


def test_a_missing_gang_has_no_members(cluster, state):
    assert list_members(cluster, state()) == []


def test_a_recorded_end_outlives_its_pod():
    def task(rank: int, node: str, code: int | None = None) -> PodTask:
        return PodTask("team/digits", 1, rank, "worker", rank, node, f"digits-worker-{rank}", code=code)

    kept = [task(0, "n1", code=3), task(1, "n1")]
    seen = [task(0, "n2"), task(1, "n2"), task(2, "n2")]
    assert [(each.node, each.code) for each in merge_tasks(kept, seen)] == [("n1", 3), ("n2", None), ("n2", None)]


def test_the_log_of_the_failed_container_is_chosen(pod):
    assert choose_container(pod("worker", 0, code=1)) == "pytorch"
    assert choose_container(pod("worker", 0)) == "sidecar"
