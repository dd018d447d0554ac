"""A shell script with the kubectl commands that give each group of nodes its configuration.

Sources: GPU Operator documentation: nvidia.com/mig.config names a configuration of the MIG manager,
nvidia.com/device-plugin.config one of the device plugin.
"""

from __future__ import annotations

import shlex

from windlass.hardware.sharing.plan import NodeGroup, SharingPlan
from windlass.hardware.sharing.render.operator_files import plugin_config_name, used_groups

GROUP_LABEL = "windlass.dev/gpu-sharing"
"""Label by which pods select the nodes of their group."""
_HEAD = """\
#!/bin/sh
# Labels the nodes of each group, by name within their pool. Drain nodes first: MIG changes stop pods on their GPUs.
set -eu

label() { # selector, first node, last node, labels
    selector=$1 first=$2 last=$3
    shift 3
    nodes=$(kubectl get nodes -l "$selector" -o name | sort | sed -n "${first},${last}p")
    [ -n "$nodes" ] || { echo "no nodes $first to $last match $selector" >&2; exit 1; }
    kubectl label --overwrite $nodes "$@"
}
"""


def label_script(plan: SharingPlan) -> str:
    """Returns the script. Nodes without MIG lose their instances by the configuration all-disabled."""
    return "\n".join([_HEAD, *(_command(group) for group in used_groups(plan)), ""])


def _command(group: NodeGroup) -> str:
    labels = [f"{GROUP_LABEL}={group.name}", f"nvidia.com/device-plugin.config={plugin_config_name(group)}"]
    if group.pool.gpu.geometry is not None:
        labels.append(f"nvidia.com/mig.config={group.name if group.layouts else 'all-disabled'}")
    last = group.first + group.nodes
    words = [shlex.quote(group.pool.selector), str(group.first + 1), str(last), *map(shlex.quote, labels)]
    return f"label {' '.join(words)}"
