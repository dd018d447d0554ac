"""Node affinity that is too large to be compared with every node."""

from __future__ import annotations

import pytest

from windlass.jobs.kubernetes.manifest_reader import ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of


def spec(terms: int, values: int) -> ManifestField:
    matches = [{"key": "rack", "operator": "In", "values": [f"r{number}" for number in range(values)]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": matches}] * terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return ManifestField({"affinity": affinity}, ("spec",))


def test_an_affinity_of_a_usual_size_is_read() -> None:
    assert len(affinity_of(spec(256, 4))) == 256


@pytest.mark.parametrize(
    ("terms", "values", "fault"), [(257, 1, "257 conditions; at most 256"), (5, 205, "1025 values; at most 1024")]
)
def test_an_affinity_with_too_many_parts_is_refused(terms: int, values: int, fault: str) -> None:
    with pytest.raises(ManifestError, match=fault):
        affinity_of(spec(terms, values))
