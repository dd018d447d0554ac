"""Rules about GPU operators: ClusterPolicy, and the configurations of the device plugin and of mig-parted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from windlass.diagnose.lint.documents import DEVICE_PLUGIN, MIG_PARTED, Document, Documents
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value

_OPERATOR = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin"
_MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"
_PARTED = "https://github.com/NVIDIA/mig-parted"
_RESOURCE = re.compile(r"(nvidia\.com/)?(gpu|mig-[1-7]g\.[0-9]+gb[\w.+-]*)")
_PROFILE = re.compile(r"([1-7])(?:c\.[1-7])?g\.([0-9]+)gb([-+.][a-z.+]+)?")
_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "migStrategy": ("none", "single", "mixed"),
        "deviceListStrategy": ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
        "deviceIDStrategy": ("uuid", "index"),
    }
)
"""Flag of the device plugin → its values."""
_SLICES_OF_GPU = 7
_MEMORY_SLICES = 0b11111111
_PLACES: Mapping[int, tuple[int, tuple[int, ...]]] = MappingProxyType(
    {7: (8, (0,)), 4: (4, (0,)), 3: (4, (0, 4)), 2: (2, (0, 2, 4)), 1: (1, (0, 1, 2, 3, 4, 5, 6))}
)
"""Compute slices of a profile → its slices of memory, and the slices at which it may begin: the least of each size."""


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write none, single or mixed.",
    source=f"{_OPERATOR}/gpu-operator-mig.html",
    kinds="ClusterPolicy",
)
def cluster_policy_mig_strategy(document: Document) -> Iterator[Hit]:
    """The operator knows the strategies none, single and mixed; the API server refuses another one."""
    strategy = document.spec.at("mig", "strategy")
    if strategy and strategy.text not in _VALUES["migStrategy"]:
        yield strategy.hit_word(f"mig.strategy: {strategy.text[:40]!r} is no strategy", _VALUES["migStrategy"])


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Write kernelModuleType: open, proprietary or auto.",
    source=f"{_OPERATOR}/release-notes.html",
    kinds="ClusterPolicy NVIDIADriver",
)
def driver_modules_obsolete(document: Document) -> Iterator[Hit]:
    """The field kernelModuleType replaced useOpenKernelModules, and chooses by the GPU without a value."""
    driver = document.spec["driver"] if document.kind == "ClusterPolicy" else document.spec
    if driver["useOpenKernelModules"]:
        yield driver["useOpenKernelModules"].hit("useOpenKernelModules was replaced by kernelModuleType")


def _shared(document: Document) -> Iterator[tuple[str, Value]]:
    for way in ("timeSlicing", "mps"):
        for resource in document.root.at("sharing", way, "resources").items:
            yield way, resource


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write replicas: 2 or more.",
    source=f"{_PLUGIN}#shared-access-to-gpus",
    kinds=DEVICE_PLUGIN,
)
def sharing_replicas(document: Document) -> Iterator[Hit]:
    """A GPU is shared by at least two; the device plugin stops at a configuration with fewer."""
    for _, resource in _shared(document):
        replicas = resource["replicas"]
        if replicas.number is None or replicas.number < 2:
            yield (replicas or resource).hit(f"replicas is {replicas.text[:40] or 'missing'}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Keep timeSlicing or mps.",
    source=f"{_PLUGIN}#shared-access-to-gpus",
    kinds=DEVICE_PLUGIN,
)
def sharing_of_two_kinds(document: Document) -> Iterator[Hit]:
    """A node shares its GPUs by time slices or by MPS; the device plugin stops at both."""
    ways = {way for way, _ in _shared(document)}
    if len(ways) > 1:
        yield document.root.at("sharing", "mps").hit("timeSlicing and mps in one configuration")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write nvidia.com/gpu or a MIG resource.",
    source=f"{_PLUGIN}#shared-access-to-gpus",
    kinds=DEVICE_PLUGIN,
)
def sharing_resource_unknown(document: Document) -> Iterator[Hit]:
    """The device plugin has no resource of this name, so nothing is shared."""
    for _, resource in _shared(document):
        name = resource["name"]
        if name and not _RESOURCE.fullmatch(name.text):
            yield name.hit_value(f"{name.text[:60]!r} is no resource of the device plugin")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Share with timeSlicing, or turn MIG off.",
    source=f"{_PLUGIN}#with-cuda-mps",
    kinds=DEVICE_PLUGIN,
)
def sharing_mps_of_mig(document: Document) -> Iterator[Hit]:
    """The device plugin does not support MPS on MIG devices."""
    for way, resource in _shared(document):
        if way == "mps" and "mig-" in resource["name"].text:
            yield resource["name"].hit_value(f"mps of {resource['name'].text[:60]}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write one of the values that the message lists.",
    source=f"{_PLUGIN}#configuration-option-details",
    kinds=DEVICE_PLUGIN,
)
def device_plugin_flag_value(document: Document) -> Iterator[Hit]:
    """The device plugin stops at a value that it does not know, so the node has no GPUs."""
    flags = document.root["flags"]
    for name, known in _VALUES.items():
        value = flags[name] or flags["plugin"][name]
        for each in value.items or [value]:
            if each and each.text not in known:
                yield each.hit_word(f"{name}: {each.text[:40]!r} is none of {', '.join(known)}", known)


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Remove the field; renameByDefault: true adds .shared to the names.",
    source=f"{_PLUGIN}#shared-access-to-gpus",
    kinds=DEVICE_PLUGIN,
)
def sharing_field_ignored(document: Document) -> Iterator[Hit]:
    """The device plugin ignores names and selections of devices: all GPUs are shared under their own name."""
    for _, resource in _shared(document):
        rename, chosen, usual = resource["rename"], resource["devices"], f"{resource['name'].text}.shared"
        if rename and rename.text != usual:
            yield rename.hit("rename has no effect")
        if chosen and chosen.text != "all":
            yield chosen.hit("devices has no effect")
    if document.root["resources"].fields:
        yield document.root["resources"].hit("resources has no effect")


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Write a key of the ConfigMap, or add the configuration there.",
    source=f"{_OPERATOR}/gpu-sharing.html",
)
def cluster_policy_config_unknown(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """The key names the configuration of nodes without a label of their own; the operand fails without it."""
    for policy in documents.of("ClusterPolicy"):
        config = policy.spec.at("devicePlugin", "config")
        maps = documents.named("ConfigMap", config["name"].text)
        key = config["default"]
        if key.text and len(maps) == 1 and key.text not in maps[0].root["data"].fields:
            yield policy, key.hit_value(f"the ConfigMap {maps[0].name[:60]!r} has no key {key.text[:60]!r}")


def _layouts(document: Document) -> Iterator[Value]:
    for config in document.root["mig-configs"].fields.values():
        yield from config.items


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write a profile as nvidia-smi mig -lgip lists it, for example 3g.40gb.",
    source=_MIG_GUIDE,
    kinds=MIG_PARTED,
)
def mig_profile_malformed(document: Document) -> Iterator[Hit]:
    """A profile is named slices g, then memory gb; mig-parted stops at another name."""
    for layout in _layouts(document):
        for name, count in layout["mig-devices"].fields.items():
            if not _PROFILE.fullmatch(name):
                yield count.hit(f"{name[:40]!r} is no MIG profile")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Lower the counts: the compute slices of all devices are at most 7.",
    source=f"{_MIG_GUIDE}#supported-mig-profiles",
    kinds=MIG_PARTED,
)
def mig_devices_exceed_gpu(document: Document) -> Iterator[Hit]:
    """A GPU has seven compute slices; mig-parted fails and leaves the node without devices."""
    for layout in _layouts(document):
        slices = sum(size * count for size, count in _devices(layout))
        if slices > _SLICES_OF_GPU:
            yield layout["mig-devices"].hit(f"the devices have {slices} compute slices")


def _devices(layout: Value) -> list[tuple[int, int]]:
    """Compute slices and number of the devices of each profile of a layout."""
    found = ((_PROFILE.fullmatch(name), count) for name, count in layout["mig-devices"].fields.items())
    return [(int(profile[1]), count.number or 0) for profile, count in found if profile]


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Combine profiles as nvidia-smi mig -lgipp lists their places.",
    source=f"{_MIG_GUIDE}#supported-mig-profiles",
    kinds=MIG_PARTED,
)
def mig_layout_impossible(document: Document) -> Iterator[Hit]:
    """Devices begin at certain slices of the memory: no GPU has room for these together, so mig-parted fails."""
    for layout in _layouts(document):
        devices = _devices(layout)
        if not 0 < sum(size * count for size, count in devices) <= _SLICES_OF_GPU:
            continue
        sizes = sorted((size for size, count in devices for _ in range(count)), reverse=True)
        if not _is_placed(sizes, _MEMORY_SLICES):
            yield layout["mig-devices"].hit(f"devices of {', '.join(map(str, sizes))} slices find no places together")


def _is_placed(sizes: list[int], free: int) -> bool:
    """Tells whether devices find places in the free slices, a mask; the starts are those of all GPUs since the A100."""
    if not sizes:
        return True
    width, starts = _PLACES.get(sizes[0], (0, ()))
    places = [((1 << width) - 1) << start for start in starts]
    return any(free & bits == bits and _is_placed(sizes[1:], free & ~bits) for bits in places)


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write mig-enabled: true, or remove mig-devices.",
    source=_PARTED,
    kinds=MIG_PARTED,
)
def mig_devices_while_disabled(document: Document) -> Iterator[Hit]:
    """A GPU has MIG devices only in MIG mode; mig-parted refuses the configuration."""
    for layout in _layouts(document):
        if layout["mig-enabled"].text == "false" and layout["mig-devices"].fields:
            yield layout["mig-devices"].hit("mig-devices of a GPU without MIG mode")
