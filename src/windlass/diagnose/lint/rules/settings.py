"""Rules about variables of NCCL, PyTorch, CUDA and libfabric: unknown, obsolete, for debugging."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from windlass.diagnose.lint.environment import Environment
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import Container
from windlass.diagnose.lint.rule import Subject, rule
from windlass.hardware.network.profiles import EFA_RESOURCE
from windlass.hardware.network.variables import obsolete_settings

_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_TORCH_NCCL = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
_EFA = "https://github.com/aws/aws-ofi-nccl/blob/master/doc/efa-env-var.md"
_ALLOCATOR = "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
_KNOWN = """
    ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECKS_DISABLE CHECK_POINTERS COLLNET_ENABLE COLLNET_NODE_THRESHOLD
    COMM_BLOCKING COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE CROSS_NIC CTA_POLICY CUMEM_ENABLE
    CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DMABUF_ENABLE
    GRAPH_MIXING_SUPPORT GRAPH_REGISTER HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD
    IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS
    IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL
    IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IB_USE_INLINE IGNORE_CPU_AFFINITY LAUNCH_MODE LAUNCH_ORDER_IMPLICIT
    LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL_THRESHOLD LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_NRINGS
    MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID MNNVL_ENABLE
    MNNVL_UUID NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_PLUGIN
    NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVLS_ENABLE NVLS_NCHANNELS
    NVLSTREE_MAX_CHUNKSIZE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD
    P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL PROFILER_PLUGIN PROTO PXN_DISABLE RAS_ADDR
    RAS_ENABLE RAS_TIMEOUT_FACTOR SET_STACK_SIZE SET_THREAD_NAME SHM_DISABLE SHM_LOCALITY SHM_MEMCPY_MODE
    SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS
    SOCKET_POLL_TIMEOUT_MSEC SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC TOPO_DUMP_FILE TOPO_FILE TREE_THRESHOLD
    TUNER_PLUGIN UID_STAGGER_RATE UID_STAGGER_THRESHOLD WIN_ENABLE WIN_STRIDE WORK_FIFO_BYTES
"""
_VARIABLES = frozenset(f"NCCL_{name}" for name in _KNOWN.split())
_ALLOCATOR_OPTIONS = frozenset(
    {
        "backend",
        "expandable_segments",
        "garbage_collection_threshold",
        "graph_capture_record_stream_reuse",
        "max_non_split_rounding_mb",
        "max_split_size_mb",
        "per_process_memory_fraction",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "roundup_bypass_threshold_mb",
        "roundup_power2_divisions",
    }
)
_RENAMED: Mapping[str, str] = MappingProxyType(
    {
        name: f"TORCH_{name}"
        for name in ("NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING")
    }
)
_DEBUG_LEVELS = ("VERSION", "WARN", "INFO", "TRACE", "ABORT", "NONE")
_DEBUGGING: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "NCCL_CHECK_POINTERS": ("1", "checks each pointer of every call"),
        "NCCL_DEBUG": ("TRACE", "writes a line for every operation"),
        "NCCL_P2P_DISABLE": ("1", "makes GPUs of a node exchange data through the memory of the host"),
        "NCCL_SHM_DISABLE": ("1", "makes GPUs of a node exchange data through the network"),
        "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "checks every collective with another one before it"),
    }
)
"""Variable → its value for debugging, and what that does."""
_RECORDER: Mapping[str, str] = MappingProxyType(
    {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
        "TORCH_NCCL_TRACE_CPP_STACK": "TORCH_FR_CPP_STACK",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
    }
)
_SIMILAR = 0.92
"""Share of equal characters: one letter in twelve may differ."""


@rule(RuleSeverity.WARNING, Subject.ENVIRONMENT, fix="Write the new name.", source=_TORCH_NCCL)
def torch_variable_obsolete(environment: Environment) -> Iterator[Hit]:
    """PyTorch 2.2 renamed its variables about NCCL; the old names are deprecated."""
    for name, replacement in _RENAMED.items():
        if name in environment.env:
            yield environment.env[name]["name"].hit_value(
                f"{name} is now called {replacement}", replacement, fix=f"Write {replacement}."
            )


@rule(RuleSeverity.INFO, Subject.ENVIRONMENT, fix="Remove the variable.", source=_EFA)
def efa_variable_obsolete(environment: Environment) -> Iterator[Hit]:
    """Since libfabric 1.18 and version 1.7 of NCCL's plugin they choose this themselves; the setting is not needed."""
    env = {name: entry["value"].text for name, entry in environment.env.items()}
    for each in obsolete_settings(env, "efa"):
        if not each.value or EFA_RESOURCE in environment.limits:
            yield environment.env[each.name]["name"].hit_value(f"{each.name}={env[each.name][:20]}: {each.why}")


@rule(RuleSeverity.WARNING, Subject.ENVIRONMENT, fix=f"Write one of {', '.join(_DEBUG_LEVELS[:4])}.", source=_NCCL)
def nccl_debug_level(environment: Environment) -> Iterator[Hit]:
    """NCCL ignores a level that it does not know, and logs nothing."""
    value = environment.env.get("NCCL_DEBUG")
    if value and value["value"] and value["value"].text.upper() not in _DEBUG_LEVELS and "$" not in value["value"].text:
        yield value["value"].hit_value(f"NCCL_DEBUG: {value['value'].text[:20]!r} is no level")


@rule(RuleSeverity.WARNING, Subject.CONTAINER, fix="Remove NCCL_IB_DISABLE, or the device.", source=_NCCL)
def nccl_ib_disabled(container: Container) -> Iterator[Hit]:
    """NCCL_IB_DISABLE=1 makes NCCL use TCP sockets although the container has an RDMA device."""
    value = container.env.get("NCCL_IB_DISABLE")
    devices = [name for name in container.limits if name.startswith("rdma/") or "rdma" in name]
    if value and value["value"].text == "1" and devices:
        yield value["value"].hit_value(f"NCCL_IB_DISABLE=1 with {devices[0]}")


@rule(
    RuleSeverity.INFO,
    Subject.ENVIRONMENT,
    fix="Remove it once the error is found.",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)
def cuda_launch_blocking(environment: Environment) -> Iterator[Hit]:
    """Every kernel is waited for, so that computation and communication no longer overlap."""
    value = environment.env.get("CUDA_LAUNCH_BLOCKING")
    if value and value["value"].text == "1":
        yield value["name"].hit("CUDA_LAUNCH_BLOCKING=1 is for debugging")


@rule(RuleSeverity.WARNING, Subject.ENVIRONMENT, fix="Write the name that the message shows.", source=_NCCL)
def nccl_variable_misspelt(environment: Environment) -> Iterator[Hit]:
    """NCCL ignores a variable that it does not know, so the setting has no effect."""
    for name, entry in environment.env.items():
        if name.startswith("NCCL_") and name not in _VARIABLES:
            for close in get_close_matches(name[:80], sorted(_VARIABLES), 1, _SIMILAR):
                yield entry["name"].hit_value(f"NCCL has no {name[:60]}; it has {close}", close, fix=f"Write {close}.")


@rule(
    RuleSeverity.WARNING,
    Subject.ENVIRONMENT,
    fix="Remove it; write the timeout in init_process_group(timeout=…), or --ddp-timeout of the trainer.",
    source=_NCCL,
)
def nccl_variable_invented(environment: Environment) -> Iterator[Hit]:
    """No version of NCCL has the variable: the timeout of collectives is an argument of PyTorch."""
    for each in obsolete_settings(dict.fromkeys(environment.env, ""), "invented"):
        yield environment.env[each.name]["name"].hit_value(f"NCCL has no {each.name}")


@rule(RuleSeverity.WARNING, Subject.ENVIRONMENT, fix="Remove the variable.", source=_NCCL)
def nccl_variable_removed(environment: Environment) -> Iterator[Hit]:
    """NCCL removed the variable, so that the setting has no effect; it chooses the algorithm itself."""
    for each in obsolete_settings(dict.fromkeys(environment.env, ""), "removed"):
        yield environment.env[each.name]["name"].hit_value(f"{each.name}: {each.why}")


@rule(RuleSeverity.INFO, Subject.ENVIRONMENT, fix="Write the new name.", source=_NCCL)
def nccl_variable_renamed(environment: Environment) -> Iterator[Hit]:
    """NCCL has replaced the variable; the new one counts groups of threads, which channels follow."""
    for each in obsolete_settings(dict.fromkeys(environment.env, ""), "renamed"):
        name = environment.env[each.name]["name"]
        yield name.hit_value(
            f"{each.name} is now called {each.replacement}", each.replacement, fix=f"Write {each.replacement}."
        )


@rule(
    RuleSeverity.WARNING,
    Subject.ENVIRONMENT,
    fix="Remove NCCL_NET; the plugin of the image is found by itself.",
    source="https://github.com/aws/aws-ofi-nccl",
)
def nccl_net_of_efa(environment: Environment) -> Iterator[Hit]:
    """NCCL compares NCCL_NET with the name of its plugin, and that of EFA is Libfabric: initialization fails."""
    value = environment.env.get("NCCL_NET")
    if value and value["value"].text.lower() in ("efa", "aws", "aws-ofi-nccl"):
        yield value["value"].hit_value(f"NCCL_NET={value['value'].text}")


@rule(RuleSeverity.INFO, Subject.ENVIRONMENT, fix="Remove it once the error is found.", source=_NCCL)
def debug_variable_left(environment: Environment) -> Iterator[Hit]:
    """The setting is for debugging, and makes every step slower."""
    for name, (wanted, effect) in _DEBUGGING.items():
        value = environment.env[name]["value"] if name in environment.env else None
        if value and value.text.upper() == wanted:
            yield value.hit_value(f"{name}={value.text} {effect}")


@rule(
    RuleSeverity.INFO,
    Subject.ENVIRONMENT,
    fix="Write the new name, if the image has a version of PyTorch that knows it.",
    source="https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
)
def flight_recorder_renamed(environment: Environment) -> Iterator[Hit]:
    """PyTorch renamed the variables of its flight recorder; the old names still work."""
    for name, new in _RECORDER.items():
        if name in environment.env:
            yield environment.env[name]["name"].hit_value(f"{name} is now called {new}")


@rule(RuleSeverity.WARNING, Subject.ENVIRONMENT, fix="Write pairs of a known option and its value.", source=_ALLOCATOR)
def allocator_option_unknown(environment: Environment) -> Iterator[Hit]:
    """PyTorch refuses an unknown option of its allocator as soon as it uses the GPU."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if name not in environment.env:
            continue
        value = environment.env[name]["value"]
        text = re.sub(r"\[[^]]*\]", "", value.text)
        for part in text.split(",") if "$" not in text else ():
            option = part.partition(":")[0].strip()
            if option and option not in _ALLOCATOR_OPTIONS:
                yield value.hit(f"{name}: {option[:60]!r} is no option of the allocator")
