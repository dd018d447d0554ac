"""Floating-point operations of a step, and their share of what a device could do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

PEAK: Mapping[str, float] = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "H800": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
    "A10": 125e12,
    "V100": 125e12,
    "T4": 65e12,
}
"""Dense bf16 (before Ampere fp16) operations a second, by a part of the device's name; NVIDIA's data sheets."""


def decoder(parameters: int, layers: int, width: int, length: int) -> float:
    """Of one token of a decoder, forward and backward: 6 N + 12 L d T.

    `parameters` without the embedding, `length` of the sequence in tokens. What recomputation adds is not counted.
    Source: Chowdhery et al. 2022 (PaLM), appendix B.
    """
    return 6.0 * parameters + 12.0 * layers * width * length


def peak_of(device_name: str) -> float | None:
    """Operations a second of a device at best; None if it is not known."""
    return next((peak for name, peak in PEAK.items() if name in device_name), None)


def utilisation(flops: float, seconds: float, devices: int, peak: float | None) -> float | None:
    """Model FLOPs utilisation, from 0 to 1; None if the devices' best is not known."""
    return flops / (seconds * devices * peak) if peak and seconds > 0 else None
