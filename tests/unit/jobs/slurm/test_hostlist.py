"""Host lists of Slurm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.jobs.slurm.hostlist import compress_hosts, expand_hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,7],login", ["n1", "n2", "n3", "n7", "login"]),
        ("gpu[08-10]", ["gpu08", "gpu09", "gpu10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_expand(text, names):
    assert expand_hosts(text) == names


@pytest.mark.parametrize("text", ["", "n[a-b]", "n[1-999999999]", "n[3-1000000]", "n[1-9999],m[1-9999]"])
def test_wrong_or_huge_lists_are_refused(text):
    with pytest.raises(ValueError, match="expects"):
        expand_hosts(text)


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True), min_size=1, max_size=20))
def test_compressed_lists_read_back(names):
    assert expand_hosts(compress_hosts(names)) == names


def test_compressed_lists_are_short():
    assert compress_hosts(["n1", "n2", "n3", "x", "n7"]) == "n[1-3],x,n7"
