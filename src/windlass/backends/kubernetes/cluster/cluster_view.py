"""The cluster in the core's terms, updated event by event; only changed nodes are converted again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Node as NodeObject
from windlass.backends.kubernetes.client.objects import Pod, StringMap
from windlass.backends.kubernetes.client.resources import NODES
from windlass.backends.kubernetes.cluster.nodes import NodeConversion, fabric_of, is_same_to_core, node
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.cluster.occupancy import Occupancy
from windlass.backends.kubernetes.cluster.pods import Holding, excess_usage, pod_usage
from windlass.backends.kubernetes.cluster.topology_levels import Level, level_labels, levels_of, topology
from windlass.core.model.node import Node, Topology
from windlass.core.model.resources import Resources
from windlass.hardware.network.automatic import NodeFabric


class ClusterView:
    """Nodes and their use by others. Every `put` and `drop` returns whether the view has changed."""

    def __init__(self, faults: ObjectFaults) -> None:
        self._faults = faults
        self.others = Occupancy()
        self.view = NodeConversion(levels_of(()))
        self._seen: dict[str, NodeObject] = {}
        self._nodes: dict[str, Node] = {}
        self._excess: dict[str, tuple[str, str, Resources]] = {}
        """By uid of a pod of a gang: queue, user, and what it uses beyond what the controller holds."""
        self._stale: dict[str, None] = {}  # in the order of their changes
        self._fabrics: tuple[NodeFabric, ...] | None = None
        self._listed: tuple[Level, ...] = ()
        self._labels: Counter[str] = Counter()

    def put_node(self, seen: NodeObject) -> bool:
        """Adds or updates a node."""
        name = seen.metadata.name
        before = self._seen.get(name)
        self._seen[name] = seen
        if before is not None and is_same_to_core(before, seen):
            return False
        self._count(() if before is None else before.metadata.labels, seen.metadata.labels)
        self._stale[name], self._fabrics = None, None
        return True

    def drop_node(self, name: str) -> bool:
        """Removes a node."""
        before = self._seen.pop(name, None)
        if before is None:
            return False
        self._count(before.metadata.labels, ())
        self._nodes.pop(name, None)
        self._stale.pop(name, None)
        self._fabrics = None
        return True

    def put_pod(self, pod: Pod, held: Holding | None) -> bool:
        """Adds or updates a pod. `held`: what the controller holds for it as a member of a gang; None: nothing.

        A pod that outlives its gang is to be put again, with None.
        """
        on, uid = pod.spec.node_name, pod.metadata.uid
        amounts: Resources = {}
        if on:
            amounts = pod_usage(pod) if held is None else excess_usage(pod.spec, pod.status, held.resources)
        is_charged_anew = self._charge(uid, held, amounts)
        is_taken = self._taken(self.others.put(uid, on, amounts) if amounts else self.others.drop(uid))
        return is_charged_anew or is_taken

    def drop_pod(self, pod: Pod) -> bool:
        """Removes a pod."""
        is_charged_anew = self._charge(pod.metadata.uid, None, {})
        return self._taken(self.others.drop(pod.metadata.uid)) or is_charged_anew

    @property
    def excess(self) -> Mapping[str, Mapping[str, Resources]]:
        """By queue and user: usage of pods of running gangs beyond what the controller holds for them."""
        sums: dict[str, dict[str, dict[str, int]]] = {}
        for queue, user, amounts in self._excess.values():
            owned = sums.setdefault(queue, {}).setdefault(user, {})
            owned.update({name: owned.get(name, 0) + amount for name, amount in amounts.items()})
        return sums

    def _charge(self, uid: str, held: Holding | None, amounts: Resources) -> bool:
        """Records the queue that the excess of a pod is charged to; returns whether that has changed."""
        before = self._excess.pop(uid, None)
        if held is not None and amounts:
            self._excess[uid] = held.queue, held.user, amounts
        return before != self._excess.get(uid)

    def list_levels(self, levels: Sequence[Level]) -> bool:
        """Sets an explicit list of topology levels; empty: labels define them."""
        self._listed = tuple(levels)
        return self._look_again()

    @property
    def objects(self) -> Mapping[str, NodeObject]:
        """The last seen nodes by name."""
        return self._seen

    def fabrics(self) -> tuple[NodeFabric, ...]:
        """Returns what the nodes show of their networks, for the network profile `auto`."""
        if self._fabrics is None:
            self._fabrics = tuple(map(fabric_of, self._seen.values()))
        return self._fabrics

    @property
    def topology(self) -> Topology:
        """The topology for `ClusterChanged`, with `nodes`."""
        return topology(self.view.levels)

    @property
    def by_name(self) -> Mapping[str, Node]:
        """All nodes by name; unchanged nodes are the same objects as before."""
        stale, self._stale = self._stale, {}
        for name in stale:
            seen = self._seen[name]
            about = ObjectReference(NODES, "", name, seen.metadata.uid)
            with self._faults.contain(about, "read", partial(self._convert_again, name)):
                self._nodes.pop(name, None)
                self._nodes[name] = node(seen, self.others.taken(name), self.view)
        return self._nodes

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, as `by_name` has them."""
        return tuple(self.by_name.values())

    def _convert_again(self, name: str) -> None:
        """Marks a node that could not be converted."""
        if name in self._seen:
            self._stale[name] = None

    def _taken(self, names: Iterable[str]) -> bool:
        """Marks nodes whose use has changed; pods may be seen before their nodes."""
        known = [name for name in names if name in self._seen]
        self._stale.update(dict.fromkeys(known))
        return bool(known)

    def _count(self, before: StringMap | tuple[()], after: StringMap | tuple[()]) -> None:
        """Counts the nodes that have each label that may name a level's domains."""
        self._labels.subtract(label for label in before if label in _SPOKEN_OF)
        self._labels.update(label for label in after if label in _SPOKEN_OF)
        self._look_again()

    def _look_again(self) -> bool:
        """Converts every node again if a fact that they all depend on has changed."""
        levels = self._listed or levels_of([+self._labels])
        view = NodeConversion(levels)
        if view == self.view:
            return False
        self.view = view
        self._stale.update(dict.fromkeys(self._seen))
        return True


_SPOKEN_OF = level_labels()
