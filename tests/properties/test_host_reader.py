"""The check of a machine ends with a report, whatever the files of /proc, /sys and /etc contain."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.diagnose.host.checklist import check_host
from windlass.diagnose.host.facts import ClockState, NvmlReading, OwnName
from windlass.diagnose.host.readers.host_reader import read_host
from windlass.diagnose.host.readers.live_calls import LiveCalls
from windlass.diagnose.steps import State

PORT = "sys/class/infiniband/mlx5_0/ports/1"
DEVICE = "sys/bus/pci/devices/0000:10:00.0"
PATHS = [
    *(f"{DEVICE}/{name}" for name in ("vendor", "class", "config", "driver", "current_link_width", "max_link_width")),
    *(f"{PORT}/{name}" for name in ("state", "link_layer", "gids/0", "gids/x", "gid_attrs/types/0")),
    *(f"proc/{name}" for name in ("meminfo", "modules", "cpuinfo", "7/comm", "self/limits", "self/cgroup")),
    "proc/driver/nvidia/version",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/pids.max",
    "dev/kmsg",
    "dev/nvidia0",
    "etc/cdi/nvidia.yaml",
    "etc/containerd/config.toml",
    "usr/bin/nvidia-ctk",
]
WORDS = [
    b"0x10de",
    b"0x030200",
    b"nvidia",
    b"NVRM: Xid (PCI:0000:10:00): 999999, x",
    b"max",
    b"-1",
    b"4: ACTIVE",
    b"0::/../..",
]
CONTENTS = st.one_of(st.binary(max_size=300), st.sampled_from(WORDS), st.text(max_size=60).map(str.encode))
CALLS = LiveCalls(
    nvml=lambda: NvmlReading("Unknown"),
    torch=lambda: None,
    packages=dict,
    file_system=lambda _path, _shown: None,
    own_name=lambda: OwnName("n1", ("odd",), ("10.0.0.7",)),
    clock=ClockState,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(PATHS), CONTENTS))
def test_a_machine_of_any_content_is_judged(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_bytes(content)
        steps = check_host(read_host(Path(folder), CALLS))
    assert len({step.name for step in steps}) == len(steps)
    assert all(step.fix for step in steps if step.state in (State.WARNING, State.WRONG))
