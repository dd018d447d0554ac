"""Values of one label on all nodes, as codes: a condition is evaluated for each distinct value, not for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.job import Match
from windlass.core.model.node import Node
from windlass.core.nodes.affinity import number_in


@dataclass(frozen=True, slots=True, eq=False)
class LabelCodes:
    """The values of a label: each node has the code of its value. Nodes without the label have code 0."""

    codes: NDArray[np.int32]
    """int32[N]."""
    by_value: Mapping[str | None, int]
    """Code of each distinct value; None: no label."""
    numbers: NDArray[np.int64]
    """int64[V]: the number that a value is, by code."""
    is_number: NDArray[np.bool_]
    """bool[V]: whether a value is a number."""

    def matching(self, match: Match) -> NDArray[np.bool_]:
        """Returns bool[N]: the nodes whose value fulfils the condition. Equal to `affinity.matches_terms`."""
        return self._matching_values(match)[self.codes]

    def _matching_values(self, match: Match) -> NDArray[np.bool_]:
        match match.operator:
            case "Gt" | "Lt":
                bound = number_in(match.values[0])
                if bound is None:
                    return np.zeros(len(self.by_value), np.bool_)
                return self.is_number & (self.numbers > bound if match.operator == "Gt" else self.numbers < bound)
            case "In" | "NotIn":
                found = np.zeros(len(self.by_value), np.bool_)
                found[[self.by_value[value] for value in match.values if value in self.by_value]] = True
                return found if match.operator == "In" else ~found
            case operator:
                has_label = np.arange(len(self.by_value)) > 0
                return has_label if operator == "Exists" else ~has_label


def encode_label(nodes: Sequence[Node], key: str) -> LabelCodes:
    """Returns the values of a label on these nodes."""
    by_value: dict[str | None, int] = {None: 0}
    codes = [by_value.setdefault(node.labels.get(key), len(by_value)) for node in nodes]
    numbers = [number_in(value) for value in by_value]
    return LabelCodes(
        np.array(codes, dtype=np.int32),
        by_value,
        np.array([number or 0 for number in numbers], dtype=np.int64),
        np.array([number is not None for number in numbers], dtype=np.bool_),
    )


def matching_nodes(
    size: int, terms: Iterable[Sequence[Match]], codes_of: Callable[[str], LabelCodes]
) -> NDArray[np.bool_]:
    """Returns bool[size]: the nodes on which any of the terms matches. `codes_of`: the codes of a label."""
    found = np.zeros(size, np.bool_)
    for term in terms:
        if term:
            found |= np.logical_and.reduce([codes_of(match.key).matching(match) for match in term])
    return found
