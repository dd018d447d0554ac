"""Event simulation of pods that serve arrivals: times of start and end of each arrival.

Model: an arrival of an inference or job workload takes the first free pod, in order of arrival; an arrival of a
notebook waits for its own pod. A pod on a whole GPU, a MIG instance or a share of MPS runs at a constant speed. Pods
that share a GPU by time slices run at equal parts of the GPU's time while several of them are busy, less the time of
context switches. Not modelled: memory bandwidth that pods take from each other under MPS, and the host.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.hardware.sharing.arrivals import ArrivalSeries

SWITCHING = 0.05
"""Fraction of the GPU's time that context switches take while several pods are busy."""


class PodPlace(NamedTuple):
    """One pod: its speed relative to a whole GPU of its own is 1 / `slowdown`. `gpu`: a number of a shared GPU."""

    slowdown: float
    gpu: int | None = None


class Stream(NamedTuple):
    """Arrivals of one workload and its pods. `is_bound`: each arrival belongs to one pod, as in notebooks."""

    series: ArrivalSeries
    pods: tuple[PodPlace, ...]
    is_bound: bool


class Served(NamedTuple):
    """Seconds of waiting before the start, and of the whole time until the end, of each arrival."""

    waits: NDArray[np.float64]
    latencies: NDArray[np.float64]


def simulate(streams: Sequence[Stream]) -> list[Served]:
    """Returns the times of each stream's arrivals."""
    if any(pod.gpu is not None for stream in streams for pod in stream.pods):
        return _SharedGpus(streams).run()
    return [_constant_speed(stream) for stream in streams]


def _constant_speed(stream: Stream) -> Served:
    """Serves a stream whose pods do not influence each other: each is free when its last arrival has ended."""
    pods = stream.pods
    queues = [[(0.0, pod.slowdown)] for pod in pods] if stream.is_bound else [[(0.0, pod.slowdown) for pod in pods]]
    waits, latencies = [], []
    for time, work, choice in zip(*map(np.ndarray.tolist, stream.series), strict=True):
        queue = queues[int(choice * len(queues))]
        free, slowdown = queue[0]
        start = max(time, free)
        end = start + work * slowdown
        heapq.heapreplace(queue, (end, slowdown))
        waits.append(start - time)
        latencies.append(end - time)
    return Served(np.array(waits), np.array(latencies))


class _Task(NamedTuple):
    stream: int
    number: int
    pod: int


class _SharedGpus:
    """Processor sharing: the tasks of a GPU advance together, and a change of their number changes their speed."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = streams
        self.left: dict[int, dict[_Task, float]] = {}
        """Seconds of work left, by GPU."""
        self.since: dict[int, float] = {}
        self.versions: dict[int, int] = {}
        self.ends: list[tuple[float, int, int]] = []
        """Heap of (time, GPU, version): an entry of an old version is void."""
        self.idle = [set(range(len(stream.pods))) for stream in streams]
        self.waiting: dict[tuple[int, int], deque[int]] = {}
        self.starts = [np.zeros(len(stream.series.times)) for stream in streams]
        self.finishes = [np.zeros(len(stream.series.times)) for stream in streams]

    def run(self) -> list[Served]:
        """Returns the times of all arrivals, after the last one has ended."""
        for time, stream, number in heapq.merge(*map(self._arrivals, range(len(self.streams)))):
            self._advance(time)
            self._arrive(time, stream, number)
        self._advance(float("inf"))
        return [
            Served(starts - stream.series.times, ends - stream.series.times)
            for stream, starts, ends in zip(self.streams, self.starts, self.finishes, strict=True)
        ]

    def _arrivals(self, stream: int) -> Iterator[tuple[float, int, int]]:
        for number, time in enumerate(self.streams[stream].series.times.tolist()):
            yield time, stream, number

    def _arrive(self, time: float, stream: int, number: int) -> None:
        queue = self._queue(stream, number)
        pods: Iterable[int] = self.idle[stream] if queue < 0 else self.idle[stream] & {queue}
        pod = min(pods, key=lambda each: (len(self.left.get(self._gpu(stream, each), ())), each), default=None)
        if pod is None:
            self.waiting.setdefault((stream, queue), deque()).append(number)
        else:
            self._start(time, _Task(stream, number, pod))

    def _queue(self, stream: int, number: int) -> int:
        """Returns the pod to which an arrival belongs; -1: any."""
        each = self.streams[stream]
        return int(each.series.pods[number] * len(each.pods)) if each.is_bound else -1

    def _gpu(self, stream: int, pod: int) -> int:
        """Returns the number of a pod's GPU; a pod at constant speed has a negative one of its own."""
        gpu = self.streams[stream].pods[pod].gpu
        return gpu if gpu is not None else -1 - (stream * 10_000_000 + pod)

    def _start(self, time: float, task: _Task) -> None:
        stream = self.streams[task.stream]
        self.idle[task.stream].discard(task.pod)
        self.starts[task.stream][task.number] = time
        gpu = self._gpu(task.stream, task.pod)
        self._settle(gpu, time)
        work = float(stream.series.works[task.number]) * stream.pods[task.pod].slowdown
        self.left.setdefault(gpu, {})[task] = work
        self._schedule(gpu, time)

    def _settle(self, gpu: int, time: float) -> None:
        """Subtracts the work done since the last change."""
        tasks = self.left.get(gpu)
        if tasks:
            done = (time - self.since[gpu]) * _speed(len(tasks))
            for task in tasks:
                tasks[task] -= done
        self.since[gpu] = time

    def _schedule(self, gpu: int, time: float) -> None:
        """Enters the next end of the GPU's tasks into the heap."""
        self.versions[gpu] = self.versions.get(gpu, 0) + 1
        if tasks := self.left[gpu]:
            end = time + max(0.0, min(tasks.values())) / _speed(len(tasks))
            heapq.heappush(self.ends, (end, gpu, self.versions[gpu]))

    def _advance(self, until: float) -> None:
        """Ends all tasks that end before a time."""
        while self.ends and self.ends[0][0] <= until:
            time, gpu, version = heapq.heappop(self.ends)
            if version != self.versions[gpu]:
                continue
            self._settle(gpu, time)
            task = min(self.left[gpu], key=lambda each: (self.left[gpu][each], each))
            del self.left[gpu][task]
            self._schedule(gpu, time)
            self._end(time, task)

    def _end(self, time: float, task: _Task) -> None:
        self.finishes[task.stream][task.number] = time
        self.idle[task.stream].add(task.pod)
        queue = task.pod if self.streams[task.stream].is_bound else -1
        if waiting := self.waiting.get((task.stream, queue)):
            self._start(time, _Task(task.stream, waiting.popleft(), task.pod))


def _speed(tasks: int) -> float:
    """Returns the speed of each of several tasks on one GPU."""
    return 1.0 if tasks == 1 else (1 - SWITCHING) / tasks
