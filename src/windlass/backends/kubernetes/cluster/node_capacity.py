"""What a node's allocatable resources, less what is taken of them, are to the core; and what its GPUs are.

Sources: the device plugins' documentation of their resources, and of GPU feature discovery, GKE, EKS, Karpenter and
the AMD and Intel labellers of their labels.
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
"""Labels that name the model of a node's GPUs, the one that people set themselves first."""


def gpu_kind(allocatable: Resources) -> str:
    """Which resource is the node's `gpu`: of several kinds, that of which it has most; of none, NVIDIA's.

    The other kinds of such a node cannot be asked for: to the core all of its GPUs are alike.
    """
    kinds = sorted((-amount, name != NVIDIA_GPU, name) for name, amount in allocatable.items() if is_gpu(name))
    return kinds[0][2] if kinds and kinds[0][0] else NVIDIA_GPU


def model_of(labels: Mapping[str, str]) -> str:
    """The model of its GPUs, "" if no label says it."""
    return next((labels[label] for label in _MODELS if labels.get(label)), "")


def capacity(allocatable: Resources, taken: Resources, kind: str) -> dict[str, int]:
    """What is left for gangs, in the core's names."""
    return {
        core_name(name): max(amount - taken.get(name, 0), 0)
        for name, amount in allocatable.items()
        if amount and not name.startswith(_UNASKED) and (name == kind or core_name(name) != GPU)
    }
