"""Leaders that are killed, or get no answer, at each write between the admission of a gang and its end."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_api import ELECTION_S, JOBS, KILLS, PYTORCH_JOB, TRAINING_JOB, Fault, Leader, Manifest, MemoryApi
from virtual_loop import run_in_virtual_time

from depth import depth

LIMIT_S = 120.0
"""Seconds of virtual time within which a job ends: below every start timeout."""
MOST_WRITES = 10
"""Writes of the job and its pods from its arrival to its end."""


def work_alike(_pod: str) -> float:
    return 0.5


def work_unlike(pod: str) -> float:
    """The first pod has ended before the next leader leads."""
    return 0.2 if pod in ("digits-master-0", "digits-worker-1") else 4.0


WORKS = {"pods end together": work_alike, "the first pod ends early": work_unlike}


def play(
    job: Manifest,
    work: Callable[[str], float],
    *terms: Mapping[int, Fault],
    nodes_after: float = 0,
    seed: int | None = None,
    edits: Mapping[float, Callable[[MemoryApi], None]] | None = None,
) -> tuple[MemoryApi, Sequence[Leader]]:
    """Runs leaders one after the other, each with its faults, then leaders without faults until the job has ended.

    `seed`: of the time that messages take. `edits`: what others do, by second.
    """
    api, leaders = MemoryApi(job, work, nodes_after), list[Leader]()
    if seed is not None:
        chance = random.Random(seed)  # noqa: S311 - a delay, not a secret
        api.latency = lambda: chance.uniform(0.001, 0.5)

    async def lead_in_turn() -> None:
        for faults in itertools.chain(terms, itertools.repeat({})):
            leaders.append(Leader(api, faults))
            await leaders[-1].run()
            await asyncio.sleep(ELECTION_S)

    async def until_end() -> None:
        for at, edit in (edits or {}).items():
            asyncio.get_running_loop().call_later(at, edit, api)
        tasks = [asyncio.create_task(lead_in_turn()), asyncio.create_task(api.ended.wait())]
        done, _ = await asyncio.wait(tasks, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    run_in_virtual_time(until_end())
    return api, leaders


def assert_ended_once(api: MemoryApi) -> None:
    """The job succeeded in its first generation: its gang was neither forgotten nor started twice."""
    pods = {name: (pod["spec"].get("nodeName"), pod["status"]["phase"]) for name, pod in api.pods.items()}
    assert api.phase == "Succeeded", (api.job["status"], pods)
    assert api.job["status"]["windlass"]["generation"] == 1
    assert api.doubles == []


@pytest.mark.parametrize("nodes_after", [0.0, 0.5], ids=["nodes are free", "pods wait for nodes"])
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_gang_ends_whatever_happens_to_one_write(
    job: Manifest, work: Callable[[str], float], nodes_after: float
) -> None:
    undisturbed, _ = play(job, work, nodes_after=nodes_after)
    assert_ended_once(undisturbed)
    assert 5 < len(undisturbed.writes) <= MOST_WRITES
    for number, fault in itertools.product(range(len(undisturbed.writes)), Fault):
        api, leaders = play(job, work, {number: fault}, nodes_after=nodes_after)
        assert_ended_once(api)
        is_last = number == len(undisturbed.writes) - 1
        assert len(leaders) == 1 + (fault in KILLS and not (is_last and fault is Fault.KILLED_AFTER))


faults = st.dictionaries(st.integers(0, MOST_WRITES - 1), st.sampled_from(Fault), max_size=3)


@depth(100)
@given(
    st.sampled_from(list(JOBS.values())),
    st.sampled_from(list(WORKS.values())),
    st.lists(faults, min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5]),
    st.integers(0, 2**32),
)
def test_a_gang_ends_although_several_leaders_fail_at_any_moment(
    job: Manifest, work: Callable[[str], float], terms: list[dict[int, Fault]], nodes_after: float, seed: int
) -> None:
    api, _ = play(job, work, *terms, nodes_after=nodes_after, seed=seed)
    assert_ended_once(api)


def small_job() -> Manifest:
    job = copy.deepcopy(PYTORCH_JOB)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    return job


def work_long(pod: str) -> float:
    return 30.0 if "master" in pod else 40.0


SCALING: Mapping[float, Callable[[MemoryApi], None]] = {
    1.0: lambda api: api.scale("Worker", 3),
    3.0: lambda api: api.scale("Worker", 2),
}


def test_a_running_job_follows_its_scale_whatever_happens_to_one_write() -> None:
    undisturbed, _ = play(small_job(), work_long, edits=SCALING)
    assert_ended_once(undisturbed)
    assert {"create digits-worker-2", "delete digits-worker-2"} <= set(undisturbed.writes)
    for number, fault in itertools.product(range(len(undisturbed.writes)), Fault):
        api, _ = play(small_job(), work_long, {number: fault}, edits=SCALING)
        assert_ended_once(api)
        assert sorted(api.pods) == ["digits-master-0", "digits-worker-0", "digits-worker-1"], (number, fault)
        uids = {name: {uid for uid in api.uids if uid.startswith(name)} for name in api.pods}
        assert {name: len(found) for name, found in uids.items()} == dict.fromkeys(api.pods, 1), (number, fault)


def variables(pod: Manifest) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"nodes": 1}), ({"nodes": 1}, {"nodes": 2}), ({}, {"image": "y"})],
    ids=["it shrinks", "it grows", "it has another image"],
)
def test_a_pending_job_starts_with_the_pods_of_its_latest_spec(before: Manifest, after: Manifest) -> None:
    first = {**TRAINING_JOB["spec"], **before}
    last = {**first, **after}
    kills = [{}, *({number: fault} for number in range(3) for fault in KILLS)]
    for (seed, faults), at in itertools.product(enumerate(kills), (0.05, 0.3, 0.6, 1.0, 1.5)):
        edits = {at: lambda api: api.change_spec(last)}
        api, _ = play({**TRAINING_JOB, "spec": first}, work_alike, faults, nodes_after=8.0, seed=seed, edits=edits)
        assert api.phase == "Succeeded", (seed, at)
        assert sorted(api.pods) == [f"digits-worker-{index}" for index in range(last["nodes"])], (seed, at)
        assert {pod["spec"]["containers"][0]["image"] for pod in api.pods.values()} == {last["image"]}, (seed, at)
        sizes = {variables(pod).get("WORLD_SIZE", "1") for pod in api.pods.values()}
        assert sizes == {str(last["nodes"])}, (seed, at)
