"""The pending reason in the conditions of pods: which pods are written, when, and how often."""

import asyncio

import msgspec
import pytest
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.status import pending_conditions
from windlass.backends.kubernetes.status.pending_conditions import (
    REWRITES_PER_S,
    PendingConditions,
    changes_materially,
)


def pod(name, *, node="", leaving=False):
    about = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1"}
    if leaving:
        about["deletionTimestamp"] = "2026-11-21T20:01:00Z"
    return objects.pod(
        msgspec.json.encode({"metadata": about, "spec": {"nodeName": node}, "status": {"phase": "Pending"}})
    )


class Cluster:
    """Accepts patches of pods and reports them at once, as a watch does."""

    def __init__(self, *pods):
        self.pods = {each.metadata.name: each for each in pods}
        self.writes = []

    async def patch(self, _resource, _namespace, name, body, **_options):
        [condition] = body["status"]["conditions"]
        self.writes.append((asyncio.get_running_loop().time(), name, condition["message"]))
        if name == "gone":
            del self.pods[name]
            raise ApiError(404, "NotFound", "no such pod")
        before = self.pods[name]
        written = objects.Condition(
            type="PodScheduled", status="False", reason=condition["reason"], message=condition["message"]
        )
        status = msgspec.structs.replace(before.status, conditions=[written])
        self.pods[name] = msgspec.structs.replace(before, status=status)

    def messages(self):
        return [(name, message) for _, name, message in self.writes]


def written(cluster, *steps, pause=60.0):
    """The cluster after steps with `pause` seconds between them."""

    async def story():
        troubles = []
        pending = PendingConditions(cluster, troubles.append)
        for step in steps:
            step(pending)
            await asyncio.sleep(pause)
        await pending.close()
        assert troubles == []

    run_in_virtual_time(story())
    return cluster


def saying(cluster, sentence, job_id="g"):
    return lambda pending: pending.say(job_id, sentence, lambda: list(cluster.pods.values()))


def test_every_pending_pod_is_written_once_until_the_sentence_changes():
    cluster = Cluster(pod("a"), pod("gone"), pod("b", node="n1"), pod("c", leaving=True))
    written(cluster, *(saying(cluster, text) for text in ("no gpu", "no gpu", "no cpu")))
    assert cluster.messages() == [("a", "no gpu"), ("gone", "no gpu"), ("a", "no cpu")]


def test_a_gang_that_is_pending_again_is_written_if_its_pods_are_new():
    cluster = Cluster(pod("a"))
    written(cluster, saying(cluster, "no gpu"), lambda pending: pending.forget("g"))
    written(cluster, saying(cluster, "no gpu"))
    assert len(cluster.writes) == 1  # as after a change of leader: the pod has the condition already
    cluster.pods["a"] = pod("a")
    assert len(written(cluster, saying(cluster, "no gpu")).writes) == 2


def test_pods_that_are_created_later_are_written_as_well():
    cluster = Cluster(pod("a"))

    def create(_pending):
        cluster.pods["b"] = pod("b")

    written(cluster, saying(cluster, "no gpu"), create, saying(cluster, "no gpu"))
    assert cluster.messages() == [("a", "no gpu"), ("b", "no gpu")]


@pytest.mark.parametrize(
    ("before", "after", "material"),
    [
        ("0/12 nodes fit: 8 too small, 4 full", "0/12 nodes fit: 8 too small, 4 full", False),
        ("0/12 nodes fit: 8 too small, 4 full", "0/12 nodes fit: 7 too small, 5 full", False),
        ("0/12 nodes fit: 8 too small, 4 full", "0/12 nodes fit: 4 too small, 8 full", True),
        ("0/12 nodes fit", "1/12 nodes fit", True),
        ("needs 8 gpu, 6 are free", "needs 8 gpu, 7 are free", False),
        ("needs 8 gpu, 6 are free", "queue a holds 6 of 8 gpu", True),
        ("behind a", "behind b", True),
    ],
)
def test_small_changes_of_counts_are_not_material(before, after, material):
    assert changes_materially(before, after) is material
    assert changes_materially(after, before) is material


def test_counts_that_drift_are_written_once_they_have_doubled():
    cluster = Cluster(pod("a"))
    written(cluster, *(saying(cluster, f"{count} nodes are full") for count in range(10, 45)))
    assert [message for _, message in cluster.messages()] == [f"{count} nodes are full" for count in (10, 20, 40)]


@pytest.mark.parametrize("flapping", [False, True])
def test_4000_pending_pods_cost_fewer_than_10_writes_a_second(flapping):
    cluster = Cluster(*(pod(f"p{number}") for number in range(4_000)))
    gangs = [list(cluster.pods)[start : start + 8] for start in range(0, 4_000, 8)]
    minutes = 10

    async def story():
        pending = PendingConditions(cluster, pytest.fail)
        for turn in range(minutes * 6):
            cause = ("full", "reserved")[turn % 2 if flapping else 0]
            for number, names in enumerate(gangs):
                free = 100 + (turn * 7 + number) % 60
                pending.say(
                    f"g{number}", f"{free} nodes are {cause}", lambda names=names: [cluster.pods[n] for n in names]
                )
            await asyncio.sleep(10)
        await pending.close()

    run_in_virtual_time(story())
    first = [at for at, _, _ in cluster.writes[:4_000]]
    assert first[-1] < 60, "the first reason is written without delay"
    later = [at for at, _, _ in cluster.writes[4_000:]]
    if flapping:
        assert later, "a reason that changes is written"
        assert len(later) / (minutes * 60) <= REWRITES_PER_S < 10
    else:
        assert not later


def test_comparisons_of_the_same_sentence_are_not_remembered():
    pending_conditions._differs_materially.cache_clear()
    assert not changes_materially("needs 4 GPUs", "needs 4 GPUs")
    assert pending_conditions._differs_materially.cache_info().currsize == 0
