"""A job: what to run, the number of replicas, their resources, and the failures that it tolerates.

All times are integer milliseconds. A Job never changes after submission; its history is in its Status
(`core.model.status`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.core.model.resources import Resources, add, multiply

DEFAULT_QUEUE = "default"


class Launcher(StrEnum):
    """Program that starts the ranks of a replica."""

    PLAIN = "plain"
    """Windlass starts every rank as a process of its own, with torchrun's variables set."""
    TORCHRUN = "torchrun"
    """The command is torchrun, or starts its own ranks: one process per replica, configured by PET_* variables."""
    AGENT = "agent"
    """One `windlass agent` per replica starts the ranks (the command), watches them and restarts them."""


class Condition(StrEnum):
    """State of another job that this one waits for (`--after`)."""

    SUCCEEDED = "succeeded"
    FINISHED = "finished"
    FAILED = "failed"
    """It has ended without success."""
    STARTED = "started"
    """It has run, or has ended without."""
    MATCHING = "matching"
    """As SUCCEEDED, of the member of another array with the same index."""
    EARLIER = "earlier"
    """As FINISHED, of all jobs of a name and of the same user that were submitted before."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """Admits a replica to nodes with a taint; fields and matching as in Kubernetes core/v1."""

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
    """Required placement of the replicas in the topology.

    `level` is a level of the cluster's topology. Packed: in as few of its domains as possible, in one if `required`.
    `spread`: evenly over its domains. `slice`: each group of this many consecutive ranks' replicas lies in one domain
    (0: the whole gang).
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
    """All failures."""
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
    """Members whose success decides the job's. Empty, or no such role in the job: the members of every role."""

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
    """Request of one replica."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    """Container image, where replicas are pods."""
    pod: str = ""
    """Further fields of its pods, as JSON: a part of a pod template, which the core does not interpret."""
    network: str = ""
    """Network profile of its pods with parameters, as text, which the core does not interpret; "": none."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[tuple[Match, ...], ...] = ()
    """Terms, of which one must hold with all its conditions (requiredDuringScheduling… of nodeAffinity). Empty: every
    node.
    """
    whole_node: bool = False
    """Each replica has a node to itself."""
    min_replicas: int | None = None
    """Elastic: minimum number of replicas to start with. None: `replicas`."""
    max_replicas: int | None = None
    """Elastic: maximum number of replicas to grow to. None: `replicas`."""
    restart: MemberRestart = MemberRestart.ON_FAILURE
    """Under `RestartScope.MEMBER`."""
    step: int = 0
    """Step of the job to which it belongs: it starts when the roles of the step before have succeeded
    (`core.model.steps`).
    """
    scales_in_place: bool = False
    """Under `RestartScope.MEMBER`: a running gang has as many replicas as its owner requests, as far as there is room.
    Replicas are added and removed at the end while the others go on."""
    optional: bool = False
    """Under `RestartScope.MEMBER`: the job continues without a member that failed and is not restarted."""

    @property
    def elastic(self) -> bool:
        """Tells whether the number of replicas may change."""
        return self.min_replicas is not None or self.max_replicas is not None

    @property
    def is_sized_by_placement(self) -> bool:
        """Tells whether a running gang may have another number of replicas than the request."""
        return self.elastic or self.scales_in_place


class VerdictUse(StrEnum):
    """Effect of the automatic diagnosis of a failed attempt on the next one."""

    TELL = "tell"
    """None: the verdict is shown."""
    ACT = "act"
    """A lasting error of the program ends the job; nodes that are proven bad are avoided."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Failures after which the gang restarts, and the backoff before a restart."""

    user_limit: int = 0
    """Permitted failures of the program (`--restarts`). 0: the first one ends the job."""
    infrastructure_limit: int = 16
    """Permitted failures of the infrastructure; bounded, so that a job that breaks nodes cannot restart for ever."""
    backoff_base: int = 1_000
    backoff_max: int = 300_000
    healthy_after: int = 600_000
    """A generation that ran this long resets the backoff."""
    retryable_exit_codes: tuple[int, ...] = ()
    """Exit codes that always count as infrastructure failures."""
    fatal_exit_codes: tuple[int, ...] = ()
    """Exit codes that end the job at once, whatever the limits."""
    restarts_after_exit: bool = True
    """False: every exit of the program ends the job, also one by a signal (restartPolicy Never, backoffLimit 0). Only
    the loss of a node, an eviction or a preemption restarts the gang."""
    scope: RestartScope = RestartScope.GANG
    verdict: VerdictUse = VerdictUse.TELL
    member_limit: int | None = None
    """Restarts of members and of their containers that are allowed, under `RestartScope.MEMBER`. None: all."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """State of another job that this job waits for."""

    job_id: str
    condition: Condition = Condition.SUCCEEDED


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """A member of a job array. At most `limit` members run at a time (0: no limit)."""

    array_id: str
    index: int
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted job, complete: every default is filled in."""

    name: str
    roles: tuple[Role, ...]
    launcher: Launcher = Launcher.PLAIN
    agent: str = ""
    """Source of the agent in pods: `inject` or `image`; "": no agent starts the ranks."""
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    walltime: int | None = None
    """Longest duration of one allocation, in-place restarts included. None: no limit."""
    deadline: int | None = None
    """Longest time from the first admission to the end, over all restarts and waits (activeDeadlineSeconds)."""
    start_timeout: int | None = 600_000
    """Longest time from a launch until every member has started; then the gang goes to other nodes. None: no limit."""
    unreachable_grace: int | None = None
    """Time for which a node of the job may be unreachable before it is lost. None: its queue's."""
    ttl: int | None = None
    """Time after its end for which the job's record and logs are kept. None: until a user removes them."""
    grace: int = 10_000
    """Time from SIGTERM to SIGKILL when Windlass stops a gang."""
    restart: RestartPolicy = RestartPolicy()
    success: SuccessPolicy = SuccessPolicy()
    suspend: bool = False
    hold: str = ""
    """Why the backend cannot start it at present; "" if it can."""
    placed_by: str = ""
    """The other scheduler that chooses the nodes of its members; "": this one does. Such a job is admitted by quota
    alone: it has no constraints on nodes, and holds nothing on them."""
    after: tuple[Dependency, ...] = ()
    begin: int | None = None
    """Earliest start, in ms since the epoch. None, or a time that has passed: as soon as there is room."""
    array: ArrayMember | None = None
    topology: TopologyRequest | None = None
    gpu_types: tuple[str, ...] = ()
    """Values of the node label `gpu-type`, best first. The whole gang runs on one of them. Empty: any mix."""
    avoid: tuple[str, ...] = ()
    """Names of excluded nodes."""
    preemptible: bool = True
    """Permits the scheduler to preempt it for other jobs."""
    workdir: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Number of replicas over all roles: the gang's size."""
        return sum(role.replicas for role in self.roles)

    @property
    def world_size(self) -> int:
        """Number of ranks over all replicas of all roles."""
        return sum(role.replicas * role.procs for role in self.roles)


def total_request(job: Job) -> dict[str, int]:
    """Returns the request of the whole gang, by resource, saturating at MAX_AMOUNT."""
    total: dict[str, int] = {}
    for role in job.roles:
        total = add(total, multiply(role.resources, role.replicas))
    return total
