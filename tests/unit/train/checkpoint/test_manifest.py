import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.train.checkpoint.store.errors import CheckpointError, CheckpointManifestError
from windlass.train.checkpoint.store.manifest import FileFact, Manifest, TensorFact, from_json, to_json

COUNTS = st.integers(0, 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=6,
)
MANIFESTS = st.builds(
    Manifest,
    step=COUNTS,
    samples=COUNTS,
    mesh=st.text(max_size=20),
    world=COUNTS,
    saved_at=COUNTS,
    files=st.dictionaries(st.text(), st.builds(FileFact, COUNTS, st.integers(0, 2**32 - 1)), max_size=4),
    tensors=st.dictionaries(
        st.text(), st.builds(TensorFact, st.lists(COUNTS, max_size=3).map(tuple), st.just("float32")), max_size=4
    ),
    facts=st.dictionaries(st.text(), JSON, max_size=3),
)
SMALL = Manifest(
    500, 4000, "dp=2", 2, 17, {"__0_0.distcp": FileFact(9, 7)}, {"w": TensorFact((2, 3), "bfloat16")}, {"seed": 1.5}
)


@given(MANIFESTS)
def test_a_manifest_is_parsed_back(manifest):
    assert from_json(to_json(manifest)) == manifest


@given(MANIFESTS, st.data())
@depth(300)
def test_a_flipped_bit_is_detected_or_changes_nothing(manifest, data):
    written = bytearray(to_json(manifest))
    bit = data.draw(st.integers(0, len(written) * 8 - 1))
    written[bit // 8] ^= 1 << bit % 8
    assert _reads_as(manifest, bytes(written))


def test_each_flipped_bit_of_a_small_manifest_is_detected():
    written = to_json(SMALL)
    for bit in range(len(written) * 8):
        flipped = bytearray(written)
        flipped[bit // 8] ^= 1 << bit % 8
        assert _reads_as(SMALL, bytes(flipped))


def _reads_as(manifest, data):
    """Whether the data is refused, or has the same value: 1e5 and 1E5 are one number."""
    try:
        return from_json(data) == manifest
    except CheckpointManifestError:
        return True


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_other_data_is_refused_with_a_manifest_error(data):
    with pytest.raises(CheckpointManifestError):
        from_json(data)


@pytest.mark.parametrize(
    "report", [{}, {"step": 1}, [], None, {**json.loads(to_json(SMALL))["checkpoint"], "files": 3}]
)
def test_a_sealed_but_incomplete_manifest_is_refused(report):
    crc = zlib.crc32(json.dumps(report, sort_keys=True, separators=(",", ":")).encode())
    with pytest.raises(CheckpointManifestError):
        from_json(json.dumps({"windlass": 1, "crc32": crc, "checkpoint": report}).encode())


def test_half_a_manifest_is_refused():
    written = to_json(SMALL)
    with pytest.raises(CheckpointManifestError, match="was not written by Windlass"):
        from_json(written[: len(written) // 2])


def test_a_manifest_of_a_newer_windlass_is_refused():
    with pytest.raises(CheckpointManifestError, match="has format 2, and this Windlass reads 1: use a newer one"):
        from_json(to_json(SMALL).replace(b'"windlass": 1', b'"windlass": 2'))


@pytest.mark.parametrize("fact", [float("nan"), {1, 2}, b"x"])
def test_facts_that_are_not_json_are_refused_before_a_write(fact):
    with pytest.raises(CheckpointError, match="facts of a checkpoint must be JSON"):
        to_json(Manifest(1, 1, "", 1, 1, facts={"loss": fact}))


def test_the_size_of_a_manifest_is_that_of_all_files():
    assert Manifest(1, 1, "", 1, 1, {"a": FileFact(3, 0), "b": FileFact(4, 0)}).size == 7
