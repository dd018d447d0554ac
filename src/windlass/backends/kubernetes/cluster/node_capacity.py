"""Converts a node's allocatable resources minus used ones to the core's resources, and identifies its GPUs.

Sources: the device plugins' documentation of their resources, and of GPU feature discovery, GKE, EKS, Karpenter and the
AMD and Intel labellers of their labels.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.model.resources import GPU, GPU_TYPE, Resources
from windlass.jobs.kubernetes.pods.pod_requests import NVIDIA_GPU, core_name, is_gpu

_UNASKED = "attachable-volumes-"
_MODELS = (
    GPU_TYPE,
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-accelerator-name",
    "gpu.nvidia.com/model",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
)
"""Labels that name the model of a node's GPUs; the label that people set themselves comes first."""


def gpu_kind(allocatable: Resources) -> str:
    """Returns the resource that is the node's `gpu`: the most numerous kind; NVIDIA's without any.

    Other kinds on such a node cannot be requested: to the core all GPUs of a node are alike.
    """
    kinds = sorted((-amount, name != NVIDIA_GPU, name) for name, amount in allocatable.items() if is_gpu(name))
    return kinds[0][2] if kinds and kinds[0][0] else NVIDIA_GPU


def model_of(labels: Mapping[str, str]) -> str:
    """Returns the model of its GPUs; "" without a label."""
    return next((labels[label] for label in _MODELS if labels.get(label)), "")


def gang_capacity(allocatable: Resources, taken: Resources, kind: str) -> dict[str, int]:
    """Returns the capacity left for gangs, in the core's names."""
    return {
        core_name(name): max(amount - taken.get(name, 0), 0)
        for name, amount in allocatable.items()
        if amount and not name.startswith(_UNASKED) and (name == kind or core_name(name) != GPU)
    }
