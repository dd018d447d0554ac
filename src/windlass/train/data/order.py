"""The order of samples: a permutation for each epoch that is computed place by place, not stored. Pure.

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
class Order:
    """The order of a dataset of `size` samples: endless, a permutation in each epoch (or as it stands)."""

    size: int
    seed: int = 0
    shuffles: bool = True

    def indices(self, first: int, count: int) -> Indices:
        """The samples first, first + 1, … of a run, as indices into the dataset. Shape (count,).

        `first` counts over all epochs, so a batch may reach from one into the next.
        """
        return _indices(self, first, count).copy()


@functools.lru_cache(maxsize=16)
def _indices(order: Order, first: int, count: int) -> Indices:
    """Who reads samples and who says which they are ask one after the other."""
    places = np.arange(first, first + count, dtype=np.int64)
    epochs, within = np.divmod(places, order.size)
    if not order.shuffles:
        return within
    found = np.empty_like(within)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        found[here] = _permuted(within[here], order.size, order.seed, int(epoch))
    return found


def _permuted(places: Indices, size: int, seed: int, epoch: int) -> Indices:
    """Where each place of one epoch leads. What falls outside of the dataset walks on until it is inside."""
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    keys = _keys(seed, epoch)
    found = places.astype(np.uint64)
    outside = np.ones(len(found), dtype=bool)
    while outside.any():
        found[outside] = _feistel(found[outside], half, keys)
        outside = found >= np.uint64(size)
    return found.astype(np.int64)


@functools.lru_cache(maxsize=4)
def _keys(seed: int, epoch: int) -> _Words:
    """Of each round."""
    return _mixed(np.arange(1, _ROUNDS + 1, dtype=np.uint64) * _ODD + _mixed(_word(seed)) + _mixed(~_word(epoch)))


def _feistel(words: _Words, half: np.uint64, keys: _Words) -> _Words:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = words >> half, words & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & mask)
    return (left << half) | right


def _mixed(words: _Words) -> _Words:
    """SplitMix64's finalizer."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _word(number: int) -> _Words:
    """As an array of one, in which arithmetic wraps without a warning."""
    return np.array([number & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
