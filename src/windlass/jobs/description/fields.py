"""The table of all fields that a user may write about a job.

The parser, the JSON Schema, `explain`, the reference and the command line's help all read it; the names, values,
defaults and meanings of fields stand nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.model.job import Job, Launcher, RestartPolicy, VerdictUse
from windlass.jobs.description.agent_command import AGENT_SOURCES
from windlass.jobs.description.begin_time import BEGIN
from windlass.jobs.description.mesh import MESH
from windlass.jobs.description.network import NETWORK
from windlass.jobs.description.placement_fields import ELASTIC, GPU_PARTS, MAX_REPLICAS, PLACING, REPLICA_PLACING
from windlass.jobs.description.schedule_fields import SCHEDULE
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.durations import format_duration
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import IMAGE, JOB_NAME, QUEUE_NAME, VARIABLE
from windlass.jobs.syntax.value_types import choice, named, whole

_JOB = value_types.named(JOB_NAME, "name", "small letters, digits and dashes, a letter first, at most 48 characters")
_QUEUE = named(QUEUE_NAME, "name of a queue", "letters, digits, dashes, dots and underscores")
_POLICY = RestartPolicy()
_PLAIN = Job("", ())

PER_REPLICA: Table = (
    Field(
        "gpus",
        "GPUs of each node (replica).",
        value_types.GPUS,
        default="0",
        example="4",
        flags=("-G", "--gpus"),
        foreign_names=("gpu", "gpus_per_node", "gres", "ngpus"),
    ),
    *GPU_PARTS,
    Field(
        "procs",
        "Ranks (processes) on each node (replica); torchrun's nproc-per-node.",
        whole(1, 4096),
        default="one per GPU, else 1",
        example="4",
        flags=("--procs",),
        foreign_names=("nproc_per_node", "ntasks_per_node", "processes", "ranks", "slots"),
    ),
    MESH,
    Field(
        "cpus",
        "CPU cores of each node (replica), for all its ranks together. 0: none are reserved.",
        value_types.CORES,
        default="one per rank if neither GPUs, nor a part of one, nor a mesh are asked for, else 0",
        example="8",
        flags=("--cpus",),
        foreign_names=("cpu", "cpus_per_task", "cores"),
    ),
    Field(
        "mem",
        "Memory of each node (replica).",
        value_types.BYTES,
        default="null (none is reserved)",
        example="16Gi",
        flags=("--mem",),
        nullable=True,
        foreign_names=("memory", "ram"),
    ),
    Field(
        "command",
        "What every rank runs: a list of words, or one line. A line that needs a shell (pipes, variables, several "
        "commands) is run by sh -ec.",
        shape=Shape.COMMAND,
        default="",
        example="python train.py --epochs 3",
        foreign_names=("cmd", "run", "script", "args", "entrypoint"),
    ),
    Field(
        "env",
        "Environment variables. They win over Windlass's own, except over those that say which rank this is.",
        value_types.WORD,
        Shape.MAP,
        default="{}",
        example="{NCCL_DEBUG: INFO}",
        flags=("--env",),
        foreign_names=("environment", "envs", "variables"),
        key_pattern=VARIABLE,
        key_label="variable",
    ),
    Field(
        "image",
        "On Kubernetes: the container image that holds the program. On this machine the program is what is installed.",
        named(IMAGE, "container image", "an image such as ghcr.io/team/digits:1"),
        default="null",
        example="digits:1",
        flags=("--image",),
        nullable=True,
        foreign_names=("container_image", "docker_image"),
    ),
    Field(
        "pod",
        "On Kubernetes: part of a pod template, merged over the one that Windlass makes; containers, volumes and "
        "other lists are matched by name, and the container of the command is called main. Of no effect on this "
        "machine.",
        shape=Shape.FREE,
        default="{}",
        example="{spec: {serviceAccountName: trainer}}",
        foreign_names=("pod_template", "podTemplate", "template"),
    ),
    NETWORK,
    Field(
        "selector",
        "Only nodes with all these labels.",
        value_types.WORD,
        Shape.MAP,
        default="{}",
        example="{zone: a}",
        flags=("--selector",),
        foreign_names=("node_selector", "nodeSelector", "constraint"),
        key_label="label",
    ),
    *REPLICA_PLACING,
    Field(
        "tolerations",
        "Taints that do not keep the job away; as in Kubernetes.",
        shape=Shape.TABLES,
        default="[]",
        example="[{key: gpu, operator: Exists}]",
        table=(
            Field("key", "The taint's key; empty matches every key.", value_types.WORD, default='""', example="gpu"),
            Field(
                "operator",
                "Equal compares the value, Exists does not.",
                choice(("Equal", "Exists")),
                default="Equal",
                example="Exists",
            ),
            Field("value", "The taint's value.", value_types.WORD, default='""', example='"true"'),
            Field(
                "effect",
                "The taint's effect; empty matches every effect.",
                choice(("", "NoSchedule", "PreferNoSchedule", "NoExecute")),
                default='""',
                example="NoSchedule",
            ),
        ),
    ),
)

ROLE: Table = (
    Field(
        "replicas",
        "Number of equal replicas of this role; each is on one node.",
        whole(1, MAX_REPLICAS),
        default="1",
        example="2",
        foreign_names=("nodes", "count"),
    ),
    ELASTIC,
    *PER_REPLICA,
)

RESTART: Table = (
    Field(
        "user",
        "Failures of the program that are allowed; 0: the first one ends the job. The same as restarts.",
        whole(0, 1_000_000),
        default=str(_POLICY.user_limit),
        example="3",
        foreign_names=("limit", "max_restarts", "backoff_limit"),
    ),
    Field(
        "infrastructure",
        "Failures of machines, networks and signals from outside that are allowed.",
        whole(0, 1_000_000),
        default=str(_POLICY.infrastructure_limit),
        example="100",
        foreign_names=("infra", "node"),
    ),
    Field(
        "backoff",
        "Wait before the second restart in a row; the first comes at once. Doubles each time.",
        value_types.DURATION,
        default=format_duration(_POLICY.backoff_base),
        example="10s",
        foreign_names=("delay", "backoff_base"),
    ),
    Field(
        "backoff_max",
        "Longest wait before a restart.",
        value_types.DURATION,
        default=format_duration(_POLICY.backoff_max),
        example="1h",
    ),
    Field(
        "healthy_after",
        "A start that ran this long makes the backoff start again.",
        value_types.DURATION,
        default=format_duration(_POLICY.healthy_after),
        example="30m",
    ),
    Field(
        "retryable_exit_codes",
        "Exit codes that count as failures of infrastructure.",
        value_types.EXIT_CODE,
        Shape.LIST,
        default="[]",
        example="[75]",
    ),
    Field(
        "fatal_exit_codes",
        "Exit codes that end the job at once, whatever the limits.",
        value_types.EXIT_CODE,
        Shape.LIST,
        default="[]",
        example="[2]",
    ),
    Field(
        "verdict",
        "Effect of the automatic diagnosis of a failure. tell: it is shown. act: a lasting error of the program ends "
        "the job, a node that is proven bad is avoided, and a restart waits up to 10s for the diagnosis.",
        choice([str(use) for use in VerdictUse]),
        default=str(_POLICY.verdict),
        example="act",
        foreign_names=("diagnosis",),
    ),
)

JOB: Table = (
    Field(
        "name",
        "What the job is called. Its id is this and a number.",
        _JOB,
        default="after the script: python train.py is train",
        example="digits",
        flags=("--name",),
        foreign_names=("job_name", "title"),
    ),
    Field(
        "nodes",
        "Number of equal replicas; each has all its GPUs and cores on one node. On the command line MIN:MAX (or "
        "MIN-MAX) makes it elastic.",
        whole(1, MAX_REPLICAS),
        default="1",
        example="2",
        flags=("-N", "--nodes"),
        foreign_names=("replicas", "nnodes", "num_nodes", "workers"),
    ),
    ELASTIC,
    *PER_REPLICA,
    *PLACING,
    Field(
        "roles",
        "Several kinds of replicas in one gang, by name, ranked in this order. What a role may have and the job has "
        "is the default for every role; env, selector and tolerations add up. nodes and elastic are in the roles then.",
        shape=Shape.NAMED,
        default="one role, worker, of the fields above",
        example="{ps: {replicas: 1, command: python ps.py}, worker: {replicas: 4, gpus: 1, command: python train.py}}",
        foreign_names=("groups", "tasks", "replica_specs"),
        table=ROLE,
        key_pattern=JOB_NAME,
        key_label="role",
    ),
    Field(
        "launcher",
        "plain: Windlass starts every rank. torchrun: the command starts its ranks itself, one process a replica. "
        "agent: one windlass agent a replica starts the ranks, watches them and starts them again in place.",
        choice([str(launcher) for launcher in Launcher]),
        default="torchrun if the command is torchrun, windlass agent, torch.distributed.run or accelerate launch, "
        "else plain; on one machine agent, if every role is a Python script that imports torch and there are several "
        "ranks, or it imports windlass.train",
        example="plain",
        flags=("--launcher",),
    ),
    Field(
        "agent",
        "On Kubernetes: ranks are started by windlass agent, which watches them and starts them again in their pods. "
        "inject adds it as one file, for images without Windlass; image: the image has it. The command is "
        "python SCRIPT, python -m MODULE or torchrun then.",
        choice(AGENT_SOURCES),
        default="null (the command is started as it is)",
        example="inject",
        flags=("--agent",),
        nullable=True,
    ),
    Field(
        "workdir",
        "Where the command runs. In a file: relative to the file's folder.",
        value_types.PATH,
        default="the file's folder; on the command line the current one",
        example="/srv/project",
        flags=("--workdir",),
        foreign_names=("cwd", "chdir", "working_dir", "workingDir"),
    ),
    Field(
        "queue",
        "The queue whose quota it uses.",
        _QUEUE,
        default=_PLAIN.queue,
        example="research",
        flags=("--queue",),
        foreign_names=("partition", "account", "queue_name"),
    ),
    Field(
        "priority",
        "Higher goes first.",
        whole(-1_000_000_000, 1_000_000_000),
        default=str(_PLAIN.priority),
        example="10",
        flags=("--priority",),
        foreign_names=("nice", "priority_class"),
    ),
    Field(
        "time",
        "Walltime: longest time on its nodes, restarts in place included.",
        value_types.LIMIT,
        default="null (no limit)",
        example="1h30m",
        flags=("--time",),
        nullable=True,
        foreign_names=("walltime", "time_limit", "timeout"),
    ),
    Field(
        "deadline",
        "Longest time from the first admission to the end, over all restarts and waits.",
        value_types.LIMIT,
        default="null (no limit)",
        example="2d",
        flags=("--deadline",),
        nullable=True,
        foreign_names=("active_deadline_seconds", "activeDeadlineSeconds"),
    ),
    Field(
        "start_timeout",
        "Longest time from a launch until every replica has started; then the job goes to other nodes.",
        value_types.LIMIT,
        default=format_duration(_PLAIN.start_timeout or 0),
        example="30m",
        flags=("--start-timeout",),
        foreign_names=("scheduleTimeoutSeconds", "startup_timeout"),
    ),
    Field(
        "unreachable_grace",
        "How long a node may be unreachable before the job has lost it and starts on other nodes.",
        value_types.DURATION,
        default="null (its queue's, or 5m)",
        example="30m",
        flags=("--unreachable-grace",),
        nullable=True,
        foreign_names=("toleration_seconds", "tolerationSeconds"),
    ),
    Field(
        "ttl",
        "How long its record and logs are kept after the end.",
        value_types.DURATION,
        default="null (until they are removed)",
        example="7d",
        flags=("--ttl",),
        nullable=True,
        foreign_names=("ttl_seconds_after_finished", "ttlSecondsAfterFinished"),
    ),
    Field(
        "grace",
        "From SIGTERM to SIGKILL when it is stopped.",
        value_types.DURATION,
        default=format_duration(_PLAIN.grace),
        example="1m",
        flags=("--grace",),
        foreign_names=("grace_period", "termination_grace_period_seconds"),
    ),
    Field(
        "restarts",
        "Failures of the program that are allowed: each restarts the whole gang. Short for restart.user.",
        whole(0, 1_000_000),
        default=str(_POLICY.user_limit),
        example="3",
        flags=("--restarts",),
        foreign_names=("max_restarts", "backoff_limit", "retries"),
    ),
    Field(
        "restart",
        "When a failure restarts the gang, and how soon.",
        shape=Shape.TABLE,
        default="{}",
        example="{user: 3, infrastructure: 100}",
        foreign_names=("restart_policy", "restartPolicy"),
        table=RESTART,
    ),
    Field(
        "array",
        "One job for each of these indexes, which is in JOB_COMPLETION_INDEX; with %4 four run at a time.",
        value_types.INDEXES,
        default="null (no array)",
        example="0-15%4",
        flags=("--array",),
        nullable=True,
        foreign_names=("indexes", "completions"),
    ),
    *SCHEDULE,
    Field(
        "after",
        "Jobs, by name or id, that must succeed first. any:NAME need only end, failed:NAME must fail, started:NAME "
        "need only start; matching:NAME is the member of the same index of another array, earlier:NAME all of your "
        "earlier jobs of the name.",
        value_types.AFTER,
        Shape.LIST,
        default="[]",
        example="[prepare, any:warmup]",
        flags=("--after",),
        foreign_names=("depends_on", "dependency", "dependencies", "needs"),
    ),
    BEGIN,
    Field(
        "suspend",
        "Hold it: it waits until a user resumes it.",
        value_types.FLAG,
        default="false",
        example="true",
        flags=("--suspend",),
        foreign_names=("hold", "suspended"),
    ),
    Field(
        "labels",
        "Free labels of the job, for users and selectors.",
        value_types.WORD,
        Shape.MAP,
        default="{}",
        example="{team: vision}",
        foreign_names=("annotations", "tags", "metadata"),
        key_label="label",
    ),
)

_BY_NAME = {field.name: field for field in JOB}


def job_field(name: str) -> Field:
    """A field of the job by its name in files, for the command line's help and flags. Raises KeyError."""
    return _BY_NAME[name]


def walk(table: Table, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Every field with its dotted path, parents before their children."""
    for field in table:
        path = f"{prefix}{field.name}"
        yield path, field
        yield from walk(field.table, f"{path}.")
