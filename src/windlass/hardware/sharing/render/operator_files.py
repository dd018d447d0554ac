"""Configuration of NVIDIA's GPU Operator, of its device plugin and of its MIG manager.

Sources: GPU Operator documentation, "GPU Operator with MIG" (mig.strategy, migManager.config) and "Time-Slicing GPUs
in Kubernetes" (devicePlugin.config, the label nvidia.com/device-plugin.config); k8s-device-plugin, "Shared Access to
GPUs" (sharing.timeSlicing and sharing.mps; no MPS on MIG devices); mig-parted, examples/config.yaml.
"""

from __future__ import annotations

from typing import Any

from windlass.hardware.sharing.layouts import count_profiles
from windlass.hardware.sharing.modes import Mode
from windlass.hardware.sharing.plan import NodeGroup, SharingPlan
from windlass.hardware.sharing.render.documents import as_yaml

NAMESPACE = "gpu-operator"
PLUGIN_CONFIG = "windlass-device-plugin"
MIG_CONFIG = "windlass-mig-parted"
SHARED_RESOURCE = "nvidia.com/gpu.shared"
"""Resource of a replica, by the device plugin's renameByDefault: a pod for a whole GPU never gets a replica."""
_WHOLE = "whole"
"""Configuration of nodes without sharing, the default."""
_DISABLED = "all-disabled"


def used_groups(plan: SharingPlan) -> list[NodeGroup]:
    """Returns the groups whose nodes are configured."""
    return [group for pool in plan.pools for group in pool.groups if not group.is_idle]


def has_mig(plan: SharingPlan) -> bool:
    """Tells whether any node has MIG instances."""
    return any(group.layouts for group in used_groups(plan))


def plugin_config_name(group: NodeGroup) -> str:
    """Returns the name of a group's configuration of the device plugin."""
    return group.name if group.layouts or group.replicas > 1 else _WHOLE


def operator_spec(plan: SharingPlan) -> dict[str, Any]:
    """Returns the fields of a ClusterPolicy's spec, which are those of the chart's values too."""
    spec: dict[str, Any] = {
        "mig": {"strategy": "mixed" if has_mig(plan) else "none"},
        "devicePlugin": {"config": {"name": PLUGIN_CONFIG, "default": _WHOLE}},
    }
    if has_mig(plan):
        spec["migManager"] = {"config": {"name": MIG_CONFIG, "default": _DISABLED}}
    return spec


def cluster_policy(plan: SharingPlan) -> dict[str, Any]:
    """Returns a patch for `kubectl patch --type merge`."""
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": operator_spec(plan),
    }


def plugin_config_map(plan: SharingPlan) -> dict[str, Any]:
    """Returns the ConfigMap with one configuration of the device plugin for each kind of node."""
    configs = {_WHOLE: as_yaml({"version": "v1", "flags": {"migStrategy": "none"}})}
    for group in used_groups(plan):
        configs.setdefault(plugin_config_name(group), as_yaml(_plugin_config(group)))
    return _config_map(PLUGIN_CONFIG, configs)


def _plugin_config(group: NodeGroup) -> dict[str, Any]:
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": "mixed" if group.layouts else "none"}}
    if group.replicas > 1:
        way = "mps" if group.mode is Mode.MPS else "timeSlicing"
        config["sharing"] = {
            way: {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": group.replicas}],
            }
        }
    return config


def mig_config_map(plan: SharingPlan) -> dict[str, Any]:
    """Returns the ConfigMap of the MIG manager, with one configuration for each group."""
    configs: dict[str, Any] = {_DISABLED: [{"devices": "all", "mig-enabled": False}]}
    for group in used_groups(plan):
        if group.layouts:
            configs[group.name] = _mig_config(group)
    return _config_map(MIG_CONFIG, {"config.yaml": as_yaml({"version": "v1", "mig-configs": configs})})


def _mig_config(group: NodeGroup) -> list[dict[str, Any]]:
    """Returns the devices of a node: GPUs with equal layouts together, and those without MIG at the end."""
    config: list[dict[str, Any]] = []
    for layout in dict.fromkeys(group.layouts):
        devices = [index for index, each in enumerate(group.layouts) if each == layout]
        config.append({"devices": devices, "mig-enabled": True, "mig-devices": count_profiles([layout])})
    rest = list(range(len(group.layouts), group.pool.gpus))
    return [*config, {"devices": rest, "mig-enabled": False}] if rest else config


def _config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": data,
    }
