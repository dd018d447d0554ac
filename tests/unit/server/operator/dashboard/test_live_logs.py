"""Lines of pods with the kubelet's times, read side by side: dead nodes delay no other log for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.objects import Metadata, Pod, PodSpec
from windlass.server.operator.dashboard.live_logs import LiveLogs, TimedLine, new_lines, parse_lines

SECOND = 1_764_219_600_000_000
RAW = (
    b"9Z cut\n"
    b"2025-11-27T05:00:00Z first\n"
    b"2025-11-27T05:00:00.000123456Z \xff second\n"
    b"2025-13-27T05:00:00Z no month\n"
    b"plain\n"
)


def test_lines_have_the_time_of_the_kubelet() -> None:
    assert parse_lines(RAW) == [TimedLine(SECOND, "first"), TimedLine(SECOND + 123, "\ufffd second")]
    assert parse_lines(b"") == []


def test_a_page_gets_each_line_once() -> None:
    lines = parse_lines(RAW)
    found, offset = new_lines(lines, 3, 0)
    assert [line[1:] for line in found] == [[3, "out", "first"], [3, "out", "\ufffd second"]]
    assert new_lines(lines, 3, offset) == ([], offset)
    assert new_lines([], 3, 7) == ([], 7)


class Kubelets:
    """A connection to nodes that send a log after some seconds; `inf`: never. `asked`: names of pods."""

    def __init__(self, delays: Mapping[str, float]) -> None:
        self.delays, self.asked = delays, list[str]()

    @asynccontextmanager
    async def stream(self, path: str, _params: Mapping[str, str], _silence: float) -> AsyncIterator[Any]:
        name = path.split("/")[-2]
        self.asked.append(name)

        async def pieces() -> AsyncIterator[bytes]:
            await asyncio.sleep(self.delays[name])
            yield RAW

        yield pieces()


def live_logs(kubelets: Kubelets) -> LiveLogs:
    backend: Any = SimpleNamespace(connection=kubelets)
    return LiveLogs(backend)


def pods(*names: str) -> list[Pod]:
    return [Pod(Metadata(name, name, "1", "team"), PodSpec(node_name="n1")) for name in names]


DEAD = [f"dead-{number}" for number in range(15)]


def test_logs_of_a_dead_node_are_left_out_of_an_answer_that_comes_in_time() -> None:
    async def story() -> None:
        logs = live_logs(Kubelets({**dict.fromkeys(DEAD, 1e9), "good": 0.1}))
        begin = asyncio.get_running_loop().time()
        found = await logs.lines(pods(*DEAD, "good"), "ann")
        assert asyncio.get_running_loop().time() - begin <= 2.0
        assert {uid: len(lines) for uid, lines in found.items()} == {"good": 2}

    run_in_virtual_time(story())


def test_a_reader_of_dead_nodes_delays_no_other_reader() -> None:
    async def story() -> None:
        logs = live_logs(Kubelets({**dict.fromkeys(DEAD, 1e9), "x": 1e9, "y": 1e9, "good": 0.1}))
        anns = [asyncio.create_task(logs.lines(pods(*names), "ann")) for names in (DEAD, ("x", "y"))]
        await asyncio.sleep(0.01)
        begin = asyncio.get_running_loop().time()
        assert list(await logs.lines(pods("good"), "bob")) == ["good"]
        assert asyncio.get_running_loop().time() - begin < 0.2
        assert await asyncio.gather(*anns) == [{}, {}]

    run_in_virtual_time(story())


def test_a_slow_log_is_read_once_for_all_answers_that_ask_for_it() -> None:
    async def story() -> None:
        kubelets = Kubelets({"slow": 3.0})
        logs = live_logs(kubelets)
        assert await logs.lines(pods("slow"), "ann") == {}
        found = await asyncio.gather(*(logs.lines(pods("slow"), name) for name in ("ann", "bob")))
        assert [len(each["slow"]) for each in found] == [2, 2]
        assert kubelets.asked == ["slow"]

    run_in_virtual_time(story())


def test_no_pods_have_no_lines() -> None:
    assert run_in_virtual_time(live_logs(Kubelets({})).lines([], "ann")) == {}


def test_a_reader_who_waits_for_a_turn_delays_no_reader_of_the_same_log() -> None:
    async def story() -> None:
        kubelets = Kubelets({**dict.fromkeys(DEAD, 1e9), "x": 1e9, "y": 1e9, "good": 0.1})
        logs = live_logs(kubelets)
        anns = asyncio.create_task(logs.lines(pods(*DEAD, "x", "y", "good"), "ann"))
        await asyncio.sleep(0.01)
        found = await logs.lines(pods("good"), "bob")
        assert [len(lines) for lines in found.values()] == [2]
        await anns
        await asyncio.sleep(6)
        assert kubelets.asked.count("good") == 1

    run_in_virtual_time(story())
