"""Computes the floating-point operations of a step, and the utilisation of a device. Pure."""

from __future__ import annotations

from collections.abc import Mapping

PEAK: Mapping[str, float] = {
    "B300": 2250e12,  # DGX B300 data sheet, 2025: as B200 in bf16
    "B200": 2250e12,  # DGX B200 data sheet, 2024: 72 PFLOPS of 8 GPUs in fp8 with sparsity, a quarter of that
    "GB200": 2500e12,  # GB200 NVL72 data sheet, 2024: 5 PFLOPS with sparsity
    "H200": 989e12,  # H200 data sheet, 2024: 1,979 with sparsity
    "GH200": 989e12,  # GH200 data sheet, 2023
    "H100 PCIe": 756e12,  # H100 data sheet, 2023: 1,513 with sparsity
    "H100 NVL": 835e12,  # the same, 2024: 1,671 with sparsity
    "H100": 989e12,  # the same, SXM5: 1,979 with sparsity
    "H800": 989e12,  # as H100, with fewer links
    "H20": 148e12,
    "A100": 312e12,  # A100 data sheet, 2021
    "A800": 312e12,  # as A100, with fewer links
    "A40": 149.7e12,  # A40 data sheet, 2021
    "A30": 165e12,  # A30 data sheet, 2021
    "A10": 125e12,  # A10 data sheet, 2021
    "L40S": 362e12,  # L40S data sheet, 2023: 733 with sparsity
    "L40": 181e12,  # L40 data sheet, 2022
    "L4": 121e12,  # L4 data sheet, 2023: 242 with sparsity
    "V100 PCIE": 112e12,  # V100 data sheet, 2020: fp16
    "V100": 125e12,  # the same, SXM2
    "T4": 65e12,  # T4 data sheet, 2019: fp16
}
"""Dense bf16 (before Ampere fp16) operations per second, by words of the device name; from NVIDIA's data sheets."""


def decoder(parameters: int, layers: int, width: int, length: int) -> float:
    """Return the operations of one token of a decoder, forward and backward: 6 N + 12 L d T.

    N `parameters` without the embedding, L `layers`, d `width` of all heads together, T `length` of the sequence in
    tokens. Two operations for each parameter forward and four backward; 12 L d T counts attention's scores and sums as
    if not causal. Recomputation is not counted. A sample of T tokens has T times as many: `flops` of `init`. Source:
    Chowdhery et al. 2022 (PaLM), appendix B; Kaplan et al. 2020 for 6 N.
    """
    return 6.0 * parameters + 12.0 * layers * width * length


def peak_of(device_name: str) -> float | None:
    """Return the peak operations per second of a device; None for an unknown name. Similar names are not guessed."""
    words = set(device_name.replace("-", " ").split())
    return next((peak for name, peak in PEAK.items() if words.issuperset(name.split())), None)


def utilisation(flops: float, seconds: float, devices: int, peak: float | None) -> float | None:
    """Return model FLOPs utilisation, from 0 to 1; None if the peak is unknown."""
    return flops / (seconds * devices * peak) if peak and seconds > 0 else None
