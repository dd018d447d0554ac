"""MFU is of stated operations on a device whose best is stated; else it is not told."""

import pytest

from windlass.train.telemetry.flops import decoder, peak_of, utilisation


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", None),  # another one than the A10
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("Tesla V100-PCIE-16GB", 112e12),
        ("Tesla T4", 65e12),
        ("Some accelerator", None),
    ],
)
def test_a_devices_best_is_known_by_its_name_or_not_at_all(name, peak):
    assert peak_of(name) == peak


def test_llama_3_8b_on_an_h200_at_its_published_rate():
    """10,471 tokens a second are 57.8 % (8.03 B parameters, 32 layers, width 4096, sequences of 4096)."""
    one = decoder(8_030_000_000, 32, 4096, 4096)
    assert utilisation(one * 10_471, 1.0, 1, peak_of("NVIDIA H200")) == pytest.approx(0.578, abs=0.001)


def test_of_a_device_that_is_not_known_no_share_is_told():
    assert utilisation(1e15, 1.0, 1, None) is None
