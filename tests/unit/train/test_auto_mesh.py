"""The `auto` mesh: the simplest in which the model fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.errors import TrainError
from windlass.train.mesh.auto_mesh import Hardware, choose_mesh
from windlass.train.mesh.degrees import Degrees

GIB = 2**30
H100 = 80 * GIB


@pytest.mark.parametrize(
    ("parameters", "machine", "degrees", "why"),
    [
        (124_000_000, Hardware(8, 8, H100), Degrees(dp=8), "124 M parameters take 1.8 GiB"),
        (
            7_000_000_000,
            Hardware(16, 8, H100),
            Degrees(dp=4, fsdp=4),
            "more than one rank can hold: 4 shards in a node",
        ),
        (70_000_000_000, Hardware(64, 8, H100), Degrees(fsdp=64), "more than one node can hold: 64 shards"),
        (405_000_000_000, Hardware(512, 8, H100), Degrees(fsdp=64, tp=8), "matrices in 8 parts in a node"),
    ],
)
def test_the_simplest_mesh_that_holds_the_model_is_chosen(parameters, machine, degrees, why):
    choice = choose_mesh(parameters, machine)
    assert choice.degrees == degrees
    assert why in choice.why


def test_a_model_that_fits_on_no_mesh_is_refused_with_the_ranks_it_needs():
    with pytest.raises(TrainError, match="at least 22 ranks are needed"):
        choose_mesh(70_000_000_000, Hardware(8, 8, H100))


@given(st.integers(1, 10**12), st.integers(1, 64), st.integers(1, 16), st.integers(GIB, 200 * GIB))
def test_a_chosen_mesh_uses_all_ranks_and_has_memory_for_each_part(parameters, nodes, each, memory):
    machine = Hardware(nodes * each, each, memory)
    try:
        degrees = choose_mesh(parameters, machine).degrees
    except TrainError:
        return
    assert degrees.size == machine.ranks
    assert parameters * 16 / (degrees.fsdp * degrees.tp) <= memory * 0.6 + 16
