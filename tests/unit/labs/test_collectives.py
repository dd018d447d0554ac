"""Four algorithms of an all-reduce, simulated: the bytes and rounds that the card states for them."""

from math import log2
from pathlib import Path

import numpy as np
import pytest

import windlass

CARD = (Path(windlass.__file__).parent / "labs/cards/collectives.md").read_text(encoding="utf-8").replace("\u2212", "-")
ELEMENTS = 64
SIZE = ELEMENTS * 8


class Network:
    """Counts what each rank sends. All messages of a round are read before one is written."""

    def __init__(self, ranks):
        self.sent = [0] * ranks
        self.rounds = 0

    def exchange(self, messages):
        """Sends (source, target, data) at the same time; returns the data by target, in order."""
        self.rounds += 1
        arrived = {}
        for source, target, data in messages:
            self.sent[source] += data.nbytes
            arrived.setdefault(target, []).append(data.copy())
        return arrived


def through_rank_0(values, network):
    count = len(values)
    for data in network.exchange([(rank, 0, values[rank]) for rank in range(1, count)])[0]:
        values[0] += data
    for rank, [data] in network.exchange([(0, rank, values[0]) for rank in range(1, count)]).items():
        values[rank][:] = data


def ring(values, network):
    count = len(values)
    parts = [np.split(value, count) for value in values]  # views
    for turn in range(count - 1):  # reduce-scatter
        sent = [(rank, (rank + 1) % count, parts[rank][(rank - turn) % count]) for rank in range(count)]
        for rank, [data] in network.exchange(sent).items():
            parts[rank][(rank - 1 - turn) % count] += data
    for turn in range(count - 1):  # all-gather
        sent = [(rank, (rank + 1) % count, parts[rank][(rank + 1 - turn) % count]) for rank in range(count)]
        for rank, [data] in network.exchange(sent).items():
            parts[rank][(rank - turn) % count][:] = data


def recursive_doubling(values, network):
    distance = 1
    while distance < len(values):
        sent = [(rank, rank ^ distance, values[rank]) for rank in range(len(values))]
        for rank, [data] in network.exchange(sent).items():
            values[rank] += data
        distance *= 2


def halving_and_doubling(values, network):
    count = len(values)
    own = [slice(0, ELEMENTS)] * count
    distance = count // 2
    while distance:  # reduce-scatter: each rank keeps a half of what it has
        halves = [half_of(own[rank], upper=bool(rank & distance)) for rank in range(count)]
        sent = [(rank, rank ^ distance, values[rank][halves[rank ^ distance]]) for rank in range(count)]
        for rank, [data] in network.exchange(sent).items():
            values[rank][halves[rank]] += data
        own = halves
        distance //= 2
    distance = 1
    while distance < count:  # all-gather: the same way back
        sent = [(rank, rank ^ distance, values[rank][own[rank]]) for rank in range(count)]
        for rank, [data] in network.exchange(sent).items():
            values[rank][own[rank ^ distance]] = data
        own = [joined(own[rank], own[rank ^ distance]) for rank in range(count)]
        distance *= 2


def half_of(part, *, upper):
    middle = (part.start + part.stop) // 2
    return slice(middle, part.stop) if upper else slice(part.start, middle)


def joined(part, other):
    return slice(min(part.start, other.start), max(part.stop, other.stop))


ALGORITHMS = {
    "all to rank 0 and back": (through_rank_0, lambda n: (n - 1) * SIZE, lambda _: 2),
    "ring": (ring, lambda n: 2 * SIZE * (n - 1) // n, lambda n: 2 * (n - 1)),
    "recursive doubling": (recursive_doubling, lambda n: SIZE * int(log2(n)), log2),
    "halving and doubling": (halving_and_doubling, lambda n: 2 * SIZE * (n - 1) // n, lambda n: 2 * log2(n)),
}


@pytest.mark.parametrize("count", [2, 4, 8, 16])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_sums_and_sends_the_bytes_of_the_card(name, count):
    reduce, sent, rounds = ALGORITHMS[name]
    values = list(np.random.default_rng(count).integers(0, 100, (count, ELEMENTS)))
    expected = sum(values)
    network = Network(count)
    reduce(values, network)
    assert all((value == expected).all() for value in values)
    assert (max(network.sent), network.rounds) == (sent(count), rounds(count))


@pytest.mark.parametrize(
    "row",
    [
        "| all to rank 0 and back | (n - 1) · S, at rank 0 | 2 |",
        "| ring | 2 · S · (n - 1) / n | 2 · (n - 1) |",
        "| recursive doubling | S · log₂ n | log₂ n |",
        "| halving and doubling | 2 · S · (n - 1) / n | 2 · log₂ n |",
    ],
)
def test_the_card_states_these_formulas(row):
    assert row in CARD
    assert row.split(" | ")[0].removeprefix("| ") in ALGORITHMS
