"""MFU of known operations on a device of known peak."""

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
        ("NVIDIA A10G", None),  # differs from the A10
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("Tesla V100-PCIE-16GB", 112e12),
        ("Tesla T4", 65e12),
        ("Some accelerator", None),
    ],
)
def test_the_peak_of_a_device_is_known_by_its_exact_name_only(name, peak):
    assert peak_of(name) == peak


def test_llama_3_8b_on_an_h200_at_its_published_rate():
    """10,471 tokens a second are 57.8 % (8.03 B parameters, 32 layers, width 4096, sequences of 4096)."""
    one = decoder(8_030_000_000, 32, 4096, 4096)
    assert utilisation(one * 10_471, 1.0, 1, peak_of("NVIDIA H200")) == pytest.approx(0.578, abs=0.001)


def test_an_unknown_device_has_no_utilisation():
    assert utilisation(1e15, 1.0, 1, None) is None
