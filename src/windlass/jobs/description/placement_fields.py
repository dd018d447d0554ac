"""Fields of a job's placement: parts of GPUs, nodes, and topology."""

from __future__ import annotations

from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import LABEL_VALUE, NODE_NAME
from windlass.jobs.syntax.value_types import named, whole

MAX_REPLICAS = 100_000
_MANY = whole(1, MAX_REPLICAS)

GPU_PARTS: Table = (
    Field(
        "gpu_share",
        "Part of one GPU of each node (replica), instead of whole ones. Other jobs may have the rest of it.",
        value_types.SHARE,
        default="null (whole ones)",
        example="0.5",
        flags=("--gpu-share",),
        nullable=True,
        foreign_names=("gpu_milli", "gpu_fraction", "fraction", "shard"),
    ),
    Field(
        "mig",
        "A MIG profile: each node (replica) gets one such slice of a GPU, instead of whole ones.",
        value_types.MIG,
        default="null (whole ones)",
        example="3g.20gb",
        flags=("--mig",),
        nullable=True,
        foreign_names=("mig_profile",),
    ),
)

REPLICA_PLACING: Table = (
    Field(
        "whole_node",
        "Each replica has its node to itself.",
        value_types.FLAG,
        default="false",
        example="true",
        flags=("--exclusive",),
        foreign_names=("exclusive",),
    ),
    Field(
        "affinity",
        "Only nodes whose labels meet one of these: conditions as kubectl -l takes them, all of which must hold.",
        value_types.TERM,
        Shape.LIST,
        default="[]",
        example='["zone in (a,b), !spot", "zone=c"]',
        flags=("--affinity",),
        foreign_names=("node_affinity", "nodeAffinity"),
        split_on_commas=False,
    ),
)

ELASTIC = Field(
    "elastic",
    "Its number of replicas may change while it runs: it starts with at least min, grows to max where nodes are idle, "
    "and shrinks before it is preempted. Each change restarts the gang.",
    shape=Shape.TABLE,
    default="null (always the same number)",
    example="{min: 2, max: 8}",
    nullable=True,
    foreign_names=("elastic_policy", "elasticPolicy", "autoscale"),
    table=(
        Field(
            "min",
            "Fewest replicas that it runs with.",
            _MANY,
            example="2",
            foreign_names=("min_replicas", "minReplicas"),
        ),
        Field(
            "max", "Most replicas that it runs with.", _MANY, example="8", foreign_names=("max_replicas", "maxReplicas")
        ),
    ),
)

PLACING: Table = (
    Field(
        "topology",
        "Placement of the replicas in the cluster's topology: all of them in one domain of this level.",
        shape=Shape.TABLE,
        default="null (anywhere)",
        example="{level: rack, preferred: true}",
        flags=("--topology",),
        nullable=True,
        foreign_names=("topology_policy", "switches"),
        table=(
            Field("level", "A level of the cluster's topology.", named(NODE_NAME, "level", "a level"), example="rack"),
            Field(
                "preferred",
                "Preferred, not required: it starts in as few domains as possible.",
                value_types.FLAG,
                default="false",
                example="true",
            ),
            Field(
                "spread",
                "Evenly over the domains instead of in one.",
                value_types.FLAG,
                default="false",
                example="true",
            ),
            Field(
                "slice",
                "Number of neighbours by rank that share a domain, instead of the whole gang. 0: the whole gang.",
                whole(0, MAX_REPLICAS),
                default="0",
                example="4",
            ),
        ),
    ),
    Field(
        "gpu_type",
        "Models of GPU it may run on, best first; all replicas get the same. The nodes' label gpu-type says theirs.",
        named(LABEL_VALUE, "model of GPU", "a model such as H100"),
        Shape.LIST,
        default="[] (any, also mixed)",
        example="[H100, A100]",
        flags=("--gpu-type",),
        foreign_names=("gpu_model", "accelerator", "gpu_types"),
    ),
    Field(
        "avoid",
        "Nodes that the job must not use.",
        named(NODE_NAME, "name of a node", "a node's name"),
        Shape.LIST,
        default="[]",
        example="[n3, n7]",
        flags=("--exclude",),
        foreign_names=("exclude", "excluded_nodes"),
    ),
    Field(
        "preemptible",
        "Whether it may be stopped, with its grace, to give its nodes to others. It then waits at its old place.",
        value_types.FLAG,
        default="true",
        example="false",
        flags=("--preemptible/--no-preemptible",),
        foreign_names=("preemptable", "requeue"),
    ),
)
