"""Selection of the local cluster: requested nodes, or the devices found on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from windlass.backends.local.nodes import (
    LocalCluster,
    cluster_from_nodes,
    declare_cluster,
    discover_cluster,
    inspect_machine,
)
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.state_store import Notes, StateStore
from windlass.core.model.policy import Policy
from windlass.jobs.errors import input_error
from windlass.server.cluster_options import ClusterOptions

_CLUSTER = "cluster"


def choose_cluster(state: Path, options: ClusterOptions) -> LocalCluster:
    """The requested cluster, else the saved one of living jobs, else the found one. Raises InputError, BackendError."""
    records = StateReader.open(StatePaths(state)) if options == ClusterOptions() else None
    if records is None:
        return build_cluster(options)
    saved = records.meta(_CLUSTER) if records.alive() else None
    records.close()
    return build_cluster(options) if saved is None else msgspec.json.decode(saved, type=LocalCluster)


def save_cluster(store: StateStore, cluster: LocalCluster) -> None:
    """Saves the cluster for the folder's next controller. Raises BackendError."""
    text = msgspec.json.encode(cluster).decode()
    if store.meta(_CLUSTER) != text:
        store.note(Notes(meta={_CLUSTER: text}))


def build_cluster(options: ClusterOptions) -> LocalCluster:
    """The requested cluster. Raises InputError if its file or its policy is invalid."""
    nodes = _nodes_of(options)
    return replace(nodes, policy=parse_policy(options.policy)) if options.policy else nodes


def parse_policy(text: str) -> Policy:
    """The policy of an option `--policy`. Raises InputError."""
    from windlass.jobs.cluster.policy_names import read_policy  # noqa: PLC0415 - few commands name one

    try:
        return read_policy(text)
    except ValueError as error:
        raise input_error("--policy", str(error)) from None


def _nodes_of(options: ClusterOptions) -> LocalCluster:
    if options.file is not None:
        from windlass.jobs.cluster.cluster_file import load_cluster  # noqa: PLC0415 - loads the YAML parser

        read = load_cluster(str(options.file))
        nodes = cluster_from_nodes(inspect_machine(), read.nodes, read.queues, read.topology, str(options.file))
        return replace(nodes, policy=read.policy, reservations=read.reservations)
    here = inspect_machine()
    if options.nodes is None and options.gpus is None:
        return discover_cluster(here)
    count = options.nodes or 1
    devices = len(here.gpus) or here.cpu // 1000
    return declare_cluster(here, count, max(1, devices // count) if options.gpus is None else options.gpus)
