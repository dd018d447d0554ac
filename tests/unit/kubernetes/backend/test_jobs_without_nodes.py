"""Jobs with the network profile `auto` wait until the nodes of the cluster are known, and go on with them."""

from __future__ import annotations

from reader_case import TRAINING, ReaderCase, training

from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.jobs.job_reader import JobReader
from windlass.backends.port import JobArrived
from windlass.hardware.network.automatic import NodeFabric
from windlass.jobs.kubernetes.pods.network_pods import NO_NODES
from windlass.jobs.kubernetes.settings import Settings

EFA_NODE = NodeFabric({}, {"vpc.amazonaws.com/efa": 4}, 8)


class FabricCase(ReaderCase):
    """A reader of jobs that looks at the nodes of a cluster."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.nodes: list[NodeFabric] = []
        reports = self.reader._reports
        self.reader = JobReader(
            self.store, self.specs, reports, Settings(nodes=lambda: self.nodes), self.adopted.append
        )
        self.recover()

    def arrived(self) -> list[dict[str, int]]:
        return [dict(event.job.roles[0].resources) for event in self.events if isinstance(event, JobArrived)]


def test_a_job_arrives_with_the_first_node() -> None:
    case = FabricCase()
    case.reader.update(TRAINING, training(network="auto", gpus=8, procs=1))
    (refusal,) = case.refused
    assert (refusal.end, case.arrived()) == (NO_NODES, [])
    case.nodes.append(EFA_NODE)
    case.reader.read_without_nodes()
    assert [each["vpc.amazonaws.com/efa"] for each in case.arrived()] == [4]
    assert not refusal.stands()


def test_a_deleted_job_waits_no_more() -> None:
    case = FabricCase()
    case.reader.update(TRAINING, training(network="auto", gpus=8, procs=1))
    case.reader.delete(OwnerKey("ml", "u1"))
    case.nodes.append(EFA_NODE)
    case.reader.read_without_nodes()
    assert case.arrived() == []


def test_a_job_whose_network_needs_no_nodes_arrives_at_once() -> None:
    case = FabricCase()
    case.reader.update(TRAINING, training(network="tcp", gpus=8, procs=1))
    assert len(case.arrived()) == 1
