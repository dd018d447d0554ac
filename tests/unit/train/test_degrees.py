"""Parsing of a mesh, and the errors for one that does not match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.errors import TrainError
from windlass.train.mesh.degrees import Degrees, coordinates_of, data_rank, parse_degrees


@pytest.mark.parametrize(
    ("text", "world", "degrees"),
    [
        ("", 1, Degrees()),
        ("", 6, Degrees(dp=6)),
        ("pp=2,dp=2,tp=2", 8, Degrees(pp=2, dp=2, tp=2)),
        ("tp=2, fsdp=*", 8, Degrees(fsdp=4, tp=2)),
        ("dp=2,fsdp=4", 8, Degrees(dp=2, fsdp=4)),
        ("dp=*", 5, Degrees(dp=5)),
    ],
)
def test_degrees_are_parsed_and_the_star_is_the_rest(text, world, degrees):
    assert parse_degrees(text, world) == degrees


@pytest.mark.parametrize(
    ("text", "world", "message"),
    [
        ("pp=2,dp=2,tp=2", 6, "makes 8 ranks (pp 2 × dp 2 × tp 2), and the world has 6"),
        ("dp=2,tp=2", 8, "makes 4 ranks (dp 2 × tp 2), and the world has 8; use dp=4 or fsdp=2 or pp=2"),
        ("dp=*,tp=3", 8, "the other degrees make 3 ranks, which do not divide the world of 8"),
        ("dp=*,tp=*", 8, "only one degree can be *, but dp and tp are"),
        ("ttp=2", 2, "there is no dimension 'ttp'; did you mean tp?"),
        ("zz=2", 2, "there is no dimension 'zz'; valid are pp, dp, fsdp, cp, tp"),
        ("tp", 2, "'tp' is no degree; write tp=2, or tp=* for the rest"),
        ("tp=0", 2, "'tp=0' is no degree"),
        ("tp=2,tp=2", 4, "tp appears twice"),
    ],
)
def test_a_mesh_that_does_not_match_is_refused_with_its_numbers(text, world, message):
    with pytest.raises(TrainError) as raised:
        parse_degrees(text, world)
    assert message in str(raised.value)


degree = st.integers(1, 4)


@given(st.builds(Degrees, pp=degree, dp=degree, fsdp=degree, cp=degree, tp=degree))
def test_every_rank_has_distinct_coordinates_and_tensor_ranks_are_neighbours(degrees):
    places = [coordinates_of(degrees, rank) for rank in range(degrees.size)]
    assert len(set(places)) == degrees.size
    assert [place.tp for place in places[: degrees.tp]] == list(range(degrees.tp))
    readers = {data_rank(degrees, rank) for rank in range(degrees.size)}
    assert readers == set(range(degrees.data_ranks))
    assert parse_degrees(str(degrees), degrees.size) == degrees
