"""Tables of GPUs, MIG profiles, instances and adapters are consistent in themselves and with each other."""

import re

import pytest

from windlass.core.model.mig import GEOMETRIES
from windlass.hardware.errors import PlanError
from windlass.hardware.facts.gpus import GPUS, find_gpu
from windlass.hardware.facts.instances import INSTANCES, find_instance
from windlass.hardware.facts.networks import ADAPTERS, FABRICS
from windlass.train.telemetry.flops import PEAK

PROFILES = [(geometry, profile) for geometry in GEOMETRIES.values() for profile in geometry.profiles]


@pytest.mark.parametrize(("geometry", "profile"), PROFILES, ids=lambda value: getattr(value, "name", ""))
def test_every_place_of_a_profile_lies_in_the_gpu_and_no_two_overlap(geometry, profile):
    occupied = 0
    for start in profile.starts:
        bits = profile.bits(start)
        assert bits & geometry.whole == bits
        assert not bits & occupied
        occupied |= bits


@pytest.mark.parametrize(("geometry", "profile"), PROFILES, ids=lambda value: getattr(value, "name", ""))
def test_a_profile_names_its_compute_slices_and_a_memory_that_its_share_of_the_gpu_can_hold(geometry, profile):
    compute, memory = map(int, re.fullmatch(r"(\d)g\.(\d+)gb", profile.name).groups())
    whole = int(geometry.model.rpartition("-")[2].removesuffix("GB"))
    assert compute <= profile.slices
    assert memory == pytest.approx(whole * profile.slices / geometry.slices, rel=0.06, abs=0.6)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=lambda geometry: geometry.model)
def test_the_compute_slices_of_all_instances_of_a_profile_fit_in_the_gpu(geometry):
    compute = {8: 7, 4: 4}[geometry.slices]
    for profile in geometry.profiles:
        assert len(profile.starts) * int(profile.name[0]) <= compute


def test_every_mig_geometry_belongs_to_a_gpu_of_the_table():
    assert set(GEOMETRIES) <= set(GPUS)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_has_a_peak_and_lower_precision_is_never_slower(gpu):
    assert gpu.peak in PEAK
    assert gpu.bf16_flops >= gpu.flops("tf32")
    assert gpu.flops("fp8") == 0 or gpu.flops("fp8") == pytest.approx(2 * gpu.bf16_flops, rel=0.02)
    assert gpu.bf16_flops > gpu.flops("fp32") > 0
    assert gpu.source.startswith("https://")


def test_every_gpu_with_a_peak_has_a_row():
    assert {gpu.peak for gpu in GPUS.values()} == set(PEAK)


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=lambda instance: instance.name)
def test_an_instance_names_a_gpu_an_adapter_and_a_fabric_that_the_adapter_carries(instance):
    assert instance.gpu in GPUS
    assert instance.fabric in FABRICS
    assert instance.fabric in ADAPTERS[instance.adapter].fabrics
    assert instance.source.startswith("https://")


@pytest.mark.parametrize(
    ("name", "efa", "gbits"),
    [("p4d.24xlarge", 4, 400), ("p5.48xlarge", 32, 3200), ("p5en.48xlarge", 16, 3200), ("p6-b200.48xlarge", 8, 3200)],
)
def test_efa_counts_and_bandwidth_are_those_of_the_instance_types(name, efa, gbits):
    instance = find_instance(name)
    assert (instance.adapters, instance.gbits) == (efa, gbits)


def test_a_model_with_several_sizes_must_be_named_with_its_size():
    assert find_gpu("h200").name == "H200-141GB"
    with pytest.raises(PlanError, match="A100-80GB, A100-40GB"):
        find_gpu("A100")


def test_an_unknown_name_is_answered_with_similar_ones():
    with pytest.raises(PlanError, match="A100-80GB"):
        find_gpu("A100-81GB")
    with pytest.raises(PlanError, match=r"p5en\.48xlarge"):
        find_instance("p5n.48xlarge")
    assert find_instance("Standard_ND96isr_H100_v5").gpu == "H100-80GB"
