"""The numbers of a gang's processes."""

from windlass.core.model.job import Job, Launcher, Role
from windlass.launch.ranks import Rank, ranks_of

TWO_ROLES = (Role("ps", replicas=1, procs=1), Role("worker", replicas=2, procs=2))


def test_ranks_are_numbered_over_roles_then_replicas_then_processes():
    assert ranks_of(Job("j", TWO_ROLES)) == (
        Rank(number=0, role="ps", replica=0, member=0, local=0, role_rank=0),
        Rank(number=1, role="worker", replica=0, member=1, local=0, role_rank=0),
        Rank(number=2, role="worker", replica=0, member=1, local=1, role_rank=1),
        Rank(number=3, role="worker", replica=1, member=2, local=0, role_rank=2),
        Rank(number=4, role="worker", replica=1, member=2, local=1, role_rank=3),
    )


def test_torchrun_is_one_process_a_replica():
    ranks = ranks_of(Job("j", TWO_ROLES, launcher=Launcher.TORCHRUN))
    assert [(rank.number, rank.member, rank.local) for rank in ranks] == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]
