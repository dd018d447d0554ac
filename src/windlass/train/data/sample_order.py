"""The order of samples: a permutation for each epoch, computed position by position, not stored. Pure.

Source: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains" (CT-RSA 2002): a Feistel network over the next
even power of two, and cycle walking back into the domain. Eight rounds mix well beyond what shuffling needs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_Words = NDArray[np.uint64]
_ROUNDS = 8
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Constants of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """The order of a dataset of `size` samples: endless, a permutation in each epoch, or the dataset's own order."""

    size: int
    seed: int = 0
    shuffles: bool = True

    def indices(self, first: int, count: int) -> Indices:
        """Return the samples first, first + 1, … of a run, as indices into the dataset. Shape (count,).

        `first` counts over all epochs, so a batch may extend from one into the next.
        """
        return _indices(self, first, count).copy()


@functools.lru_cache(maxsize=16)
def _indices(order: SampleOrder, first: int, count: int) -> Indices:
    """Return the indices, cached because the reader and the batch both ask for them."""
    positions = np.arange(first, first + count, dtype=np.int64)
    epochs, within = np.divmod(positions, order.size)
    if not order.shuffles:
        return within
    found = np.empty_like(within)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        found[here] = _permute(within[here], order.size, order.seed, int(epoch))
    return found


def _permute(positions: Indices, size: int, seed: int, epoch: int) -> Indices:
    """Return the image of each position of one epoch. Values outside the dataset are permuted again until inside."""
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    keys = _round_keys(seed, epoch)
    found = positions.astype(np.uint64)
    outside = np.ones(len(found), dtype=bool)
    while outside.any():
        found[outside] = _feistel(found[outside], half, keys)
        outside = found >= np.uint64(size)
    return found.astype(np.int64)


@functools.lru_cache(maxsize=4)
def _round_keys(seed: int, epoch: int) -> _Words:
    """Return the key of each round."""
    return _mix(np.arange(1, _ROUNDS + 1, dtype=np.uint64) * _ODD + _mix(_word(seed)) + _mix(~_word(epoch)))


def _feistel(words: _Words, half: np.uint64, keys: _Words) -> _Words:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = words >> half, words & mask
    for key in keys:
        left, right = right, left ^ (_mix(right + key) & mask)
    return (left << half) | right


def _mix(words: _Words) -> _Words:
    """SplitMix64's finalizer."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _word(number: int) -> _Words:
    """Return the number as an array of one, in which arithmetic wraps without a warning."""
    return np.array([number & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
