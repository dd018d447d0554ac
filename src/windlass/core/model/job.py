"""A job as everything in Windlass understands it: what to run, how many, with what, and what may go wrong.

All times are integer milliseconds. A Job never changes after submission; what happens to it is its Status
(`core.model.status`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.core.model.resources import Resources, add, times

DEFAULT_QUEUE = "default"


class Launcher(StrEnum):
    """Who starts the ranks of a replica."""

    PLAIN = "plain"
    """Windlass starts every rank as a process of its own, with torchrun's variables set."""
    TORCHRUN = "torchrun"
    """The command is torchrun (or starts its own ranks): one process a replica, told by PET_* variables."""
    AGENT = "agent"
    """One `windlass agent` a replica starts the ranks, which are the command, watches them and starts them again."""


class Condition(StrEnum):
    """What `--after` waits for."""

    SUCCEEDED = "succeeded"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a replica on nodes with a taint; fields and matching as in Kubernetes core/v1."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """One condition on a node's labels; operators and matching as in Kubernetes' NodeSelectorRequirement."""

    key: str
    operator: str = "In"
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """How near to each other the replicas are to be.

    `level` is a level of the cluster's topology. Packed: in as few of its domains as can be, in one if `required`.
    `spread`: evenly over its domains. `slice`: every so many neighbours by rank inside one domain (0: the whole gang).
    """

    level: str
    required: bool = True
    spread: bool = False
    slice: int = 0


class RestartScope(StrEnum):
    """Processes that a restart after a failure covers."""

    GANG = "gang"
    """All members: the generation ends."""
    MEMBER = "member"
    """The member that failed: the generation goes on. The loss of a node still restarts the gang."""


class MemberRestart(StrEnum):
    """Failures after which a member restarts alone, under `RestartScope.MEMBER`."""

    ON_FAILURE = "OnFailure"
    """All of them."""
    ON_EXIT_CODE = "ExitCode"
    """All but exit codes below 128, which are permanent."""
    ON_LOSS = "Loss"
    """Only the deletion of the member from outside."""
    NEVER = "Never"


class SuccessRule(StrEnum):
    """Number of deciding members that must succeed."""

    ALL = "all"
    FIRST = "first"
    """The first one suffices."""
    ANY = "any"


@dataclass(frozen=True, slots=True)
class SuccessPolicy:
    """Members whose success is the job's. Empty, or none of them in the job: those of every role."""

    roles: tuple[str, ...] = ()
    rule: SuccessRule = SuccessRule.ALL


@dataclass(frozen=True, slots=True)
class Role:
    """Equal replicas. A replica is one member of the gang (a pod, or a local group of ranks) on one node."""

    name: str = "worker"
    replicas: int = 1
    procs: int = 1
    """Ranks in each replica (torchrun's nproc-per-node)."""
    resources: Resources = field(default_factory=dict)
    """What one replica needs."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    """What its containers are made of, where replicas are pods."""
    pod: str = ""
    """What else its pods are, as JSON: a part of a pod template, which the core does not look into."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[tuple[Match, ...], ...] = ()
    """Any of these terms, all conditions of it (requiredDuringScheduling… of nodeAffinity). Empty: every node."""
    whole_node: bool = False
    """Each replica has its node to itself."""
    min_replicas: int | None = None
    """Elastic: it may start with so few. None: with `replicas`, and no fewer."""
    max_replicas: int | None = None
    """Elastic: it may grow to so many. None: to `replicas`."""
    restart: MemberRestart = MemberRestart.ON_FAILURE
    """Under `RestartScope.MEMBER`."""
    optional: bool = False
    """Under `RestartScope.MEMBER`: the job goes on without a member that failed and is not restarted."""

    @property
    def elastic(self) -> bool:
        """Whether its size may change."""
        return self.min_replicas is not None or self.max_replicas is not None


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a lost member restarts the gang, and how long to wait before it does."""

    user_limit: int = 0
    """Failures of the program that are forgiven (`--restarts`). 0: the first one ends the job."""
    infrastructure_limit: int = 16
    """Failures of machines that are forgiven; a bound, so that a poisoned job cannot restart for ever."""
    backoff_base: int = 1_000
    backoff_max: int = 300_000
    healthy_after: int = 600_000
    """A generation that ran this long starts the backoff afresh."""
    retryable_exit_codes: tuple[int, ...] = ()
    """Exit codes that count as infrastructure, whatever else they would be."""
    fatal_exit_codes: tuple[int, ...] = ()
    """Exit codes that end the job at once, whatever the limits."""
    restarts_after_exit: bool = True
    """False: every exit of the program ends the job, also one by a signal (restartPolicy Never, backoffLimit 0). Only
    the loss of a node, an eviction or a preemption restarts the gang."""
    scope: RestartScope = RestartScope.GANG
    member_limit: int | None = None
    """Restarts of members and of their containers that are forgiven, under `RestartScope.MEMBER`. None: all."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """The job waits until another one has ended so."""

    job_id: str
    condition: Condition = Condition.SUCCEEDED


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """One of an array's equal jobs. `limit` members run at a time (0: all that fit)."""

    array_id: str
    index: int
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What a person asked for, whole: every default filled in, nothing left to guess."""

    name: str
    roles: tuple[Role, ...]
    launcher: Launcher = Launcher.PLAIN
    agent: str = ""
    """Where pods have their agent from: `inject` or `image`; "" if none starts their ranks."""
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    walltime: int | None = None
    """Longest time one allocation may be held, in-place restarts included. None: no limit."""
    deadline: int | None = None
    """Longest time from the first admission to the end, over all restarts and waits (activeDeadlineSeconds)."""
    start_timeout: int | None = 600_000
    """Longest time from a launch until every member has started; then the gang goes to other nodes. None: no limit."""
    unreachable_grace: int | None = None
    """Time for which a node of the job may be unreachable before it is lost. None: its queue's."""
    ttl: int | None = None
    """How long after its end the job's record and logs are kept. None: until someone removes them."""
    grace: int = 10_000
    """From SIGTERM to SIGKILL when Windlass stops a gang."""
    restart: RestartPolicy = RestartPolicy()
    success: SuccessPolicy = SuccessPolicy()
    suspend: bool = False
    after: tuple[Dependency, ...] = ()
    array: ArrayMember | None = None
    topology: TopologyRequest | None = None
    gpu_types: tuple[str, ...] = ()
    """Values of the node label `gpu-type`, best first; the gang is on one of them, whole. Empty: any mix."""
    avoid: tuple[str, ...] = ()
    """Nodes it does not want, by name."""
    preemptible: bool = True
    """Whether the scheduler may take its nodes back for others."""
    workdir: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Replicas over all roles: the gang's size."""
        return sum(role.replicas for role in self.roles)

    @property
    def world_size(self) -> int:
        """Ranks over all replicas of all roles."""
        return sum(role.replicas * role.procs for role in self.roles)


def total_request(job: Job) -> dict[str, int]:
    """What the whole gang needs, by resource."""
    total: dict[str, int] = {}
    for role in job.roles:
        total = add(total, times(role.resources, role.replicas))
    return total
