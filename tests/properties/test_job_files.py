"""Job files: printed jobs read back, other texts are one clear error, and the schema agrees with the parser."""

import json
import re
import string
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from depth import depth
from gpu_tolerations import without_gpu_tolerations
from windlass.core.model.job import (
    ArrayMember,
    Condition,
    Dependency,
    Job,
    Launcher,
    Match,
    RestartPolicy,
    Role,
    Toleration,
    TopologyRequest,
    VerdictUse,
)
from windlass.jobs.description.fields import JOB, walk
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.rendering import render
from windlass.jobs.description.schedule_fields import NAMES as SCHEDULE_FIELDS
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import MAX_SHOWN, InputError
from windlass.jobs.field_docs.json_schema import schema
from windlass.jobs.kubernetes.kinds.registry import members
from windlass.jobs.kubernetes.kinds.registry import read as read_manifest
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.syntax.array_indexes import format_array, parse_array
from windlass.jobs.syntax.durations import MAX_DURATION, PATTERN, SLURM, UNITS, format_duration, parse_duration
from windlass.jobs.syntax.names import IMAGE, JOB_NAME, LABEL_VALUE, MAX_NAME, NODE_NAME, is_name, valid_name

names = st.from_regex(rf"\A{JOB_NAME}\Z")
labels = st.from_regex(r"\A[a-zA-Z0-9]([-a-zA-Z0-9_./]{0,20}[a-zA-Z0-9])?\Z")
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
awkward = st.sampled_from(
    ["yes", "null", "~", "010", "1e3", "1:30", "0o17", "", " x ", "- a", "#", "a\tb\n", "\x85\u2028\ufeff"]
)
words = text | awkward
durations = st.integers(0, MAX_DURATION)
limits = st.none() | st.integers(1, MAX_DURATION)


def mappings(keys):
    return st.dictionaries(keys, words, max_size=3)


amounts = st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 10**6), "memory": st.integers(1, 2**50)})
devices = (
    st.just({})
    | st.builds(lambda gpus: {"gpu": gpus}, st.integers(1, 16))
    | st.builds(lambda milli: {"gpu-milli": milli}, st.integers(1, 999))
    | st.sampled_from([{"mig-1g.10gb": 1}, {"mig-1g.10gb+me": 1}])
)
resources = st.builds(lambda plain, some: {**plain, **some}, amounts, devices)
values = st.from_regex(rf"\A{LABEL_VALUE}\Z")
some_values = st.lists(values, min_size=1, max_size=3).map(tuple)
matches = (
    st.builds(Match, labels, st.sampled_from(["In", "NotIn"]), some_values)
    | st.builds(Match, labels, st.sampled_from(["Exists", "DoesNotExist"]))
    | st.builds(Match, labels, st.sampled_from(["Gt", "Lt"]), st.integers(0, 10**17).map(lambda n: (str(n),)))
)
terms = st.lists(matches, min_size=1, max_size=3).map(tuple)
sizes = st.builds(lambda n: {"replicas": n}, st.integers(1, 100))
elastic_sizes = st.lists(st.integers(1, 100), min_size=2, max_size=2).map(
    lambda bounds: {"replicas": max(bounds), "min_replicas": min(bounds), "max_replicas": max(bounds)}
)
tolerations = st.builds(
    Toleration,
    words,
    st.sampled_from(["Equal", "Exists"]),
    words,
    st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
commands = st.tuples(words.filter(bool), words, words).map(tuple) | st.just(("torchrun", "--nproc-per-node=2", "x.py"))
roles = st.builds(
    lambda size, **fields: Role(**size, **fields),
    size=sizes,
    name=names | st.just("worker"),
    procs=st.integers(1, 16),
    resources=resources,
    command=commands,
    env=mappings(st.text(string.ascii_letters + "_. -", min_size=1, max_size=8)),
    node_selector=mappings(labels),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    affinity=st.lists(terms, max_size=2).map(tuple),
    whole_node=st.booleans(),
    image=st.just("") | st.from_regex(rf"\A{IMAGE}\Z").map(lambda image: image[:30]),
    pod=st.sampled_from(["", '{"spec":{"nodeName":null,"volumes":[{"emptyDir":{},"name":"v"}]}}']),
)


@st.composite
def gangs(draw):
    """Draws some roles, of which one may be elastic."""
    chosen = draw(st.lists(roles, min_size=1, max_size=3, unique_by=lambda role: role.name))
    if draw(st.booleans()):
        chosen[-1] = replace(chosen[-1], **draw(elastic_sizes))
    return tuple(chosen)


nodes = st.from_regex(rf"\A{NODE_NAME}\Z").map(lambda name: name[:20].rstrip("-."))
policies = st.builds(
    RestartPolicy,
    user_limit=st.integers(0, 100),
    infrastructure_limit=st.integers(0, 100),
    backoff_base=durations,
    backoff_max=durations,
    healthy_after=durations,
    retryable_exit_codes=st.lists(st.integers(1, 255), max_size=3).map(tuple),
    fatal_exit_codes=st.lists(st.integers(1, 255), max_size=3).map(tuple),
    verdict=st.sampled_from(VerdictUse),
)
dependencies = st.builds(Dependency, names | st.just("prep-7_3"), st.sampled_from(Condition))
jobs = st.builds(
    Job,
    name=names,
    roles=gangs(),
    launcher=st.sampled_from(Launcher),
    queue=names,
    priority=st.integers(-(10**9), 10**9),
    walltime=limits,
    deadline=limits,
    unreachable_grace=st.none() | durations,
    start_timeout=st.integers(1, MAX_DURATION),
    ttl=st.none() | durations,
    grace=durations,
    restart=policies,
    suspend=st.booleans(),
    after=st.lists(dependencies, max_size=3, unique=True).map(tuple),
    topology=st.none() | st.builds(TopologyRequest, nodes, st.booleans(), st.booleans(), st.integers(0, 99)),
    gpu_types=st.lists(values, max_size=3, unique=True).map(tuple),
    avoid=st.lists(nodes, max_size=3, unique=True).map(tuple),
    preemptible=st.booleans(),
    workdir=st.sampled_from(["/", "/srv/a b", "/wörk/ü"]),
    user=st.just("ada"),
    labels=mappings(labels),
)
arrays = st.sets(st.integers(0, 999_999), min_size=1, max_size=30).map(lambda indexes: tuple(sorted(indexes)))


@st.composite
def submissions(draw):
    array = draw(st.just(()) | arrays)
    return Submission(draw(jobs), array, draw(st.integers(0, 9)) if array else 0, "<text>")


@given(submissions(), st.sampled_from(["yaml", "json"]))
def test_a_rendered_job_reads_back_as_the_identical_job(submission, form):
    assert loads(render(submission, form), user="ada") == [submission]


@st.composite
def jobs_for_pods(draw):
    """Draws jobs that can be pods: one process each, an image, whole devices, valid names."""
    job = draw(jobs)
    roles = tuple(
        replace(
            role,
            name=role.name[:10].rstrip("-"),
            image=role.image or "a:1",
            pod="",
            resources={name: amount for name, amount in role.resources.items() if name != "gpu-milli"},
        )
        for role in job.roles
    )
    if len({role.name for role in roles}) < len(roles):
        roles = roles[:1]
    array = draw(st.none() | st.builds(ArrayMember, st.just("a-7"), st.integers(0, 999_999), st.integers(0, 9)))
    return replace(job, roles=roles, launcher=Launcher.TORCHRUN, array=array)


@given(jobs_for_pods(), st.sampled_from(["team", ""]))
def test_a_resource_reads_back_as_the_identical_job(job, namespace):
    # as an API server stores it
    manifest = json.loads(json.dumps(training_job(job, "some-7", namespace)))
    parsed = read_manifest(manifest)
    assert not isinstance(parsed, Fault), parsed
    assert without_gpu_tolerations(parsed.job) == without_gpu_tolerations(job)
    assert len(members(parsed, 1)) == job.members


@given(st.binary(max_size=300))
def test_random_bytes_give_jobs_or_a_clear_error(data):
    read(data)


@given(st.text(st.sampled_from(list("[]{}:,-?&*!|>'\"%@`#<= \n\tab1~.\\")), max_size=120))
def test_random_punctuation_gives_a_clear_error(written):
    read(written)


WHOLE = """\
name: digits
roles:
  ps: &ps {replicas: 1, gpus: 1, command: [python, "ps.py"], env: {A: '1'}}
  worker:
    <<: *ps
    replicas: 4
    tolerations: [{key: gpu, operator: Exists}]
command: |
  cd x
  python train.py
restart: {user: 3, backoff: 10s, fatal_exit_codes: [2]}
array: 0-15%4
after: [prepare, any:warmup]
time: 1-12:00:00
---
command: python train.py
mem: 16Gi
"""


@given(st.data())
def test_a_mutated_file_gives_jobs_or_a_clear_error(data):
    written = WHOLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(written)))
        end = start + data.draw(st.integers(0, 12))
        written = (
            written[:start] + data.draw(st.text(max_size=4) | st.sampled_from(list("\t:{}[]&*-\n"))) + written[end:]
        )
    read(written)


def read(data):
    """Returns jobs, or the text of an error, all of whose lines are short."""
    try:
        return loads(data)
    except InputError as error:
        lines = str(error).split("\n")
    assert lines[0].startswith("<text>")
    assert max(map(len, lines)) < 800
    assert len(lines) <= 3 * MAX_SHOWN + 1
    return None


# Editors and the parser. JSON documents over the fields' own names, with values near to valid ones and far from them.

near = st.sampled_from(
    [
        *[
            1,
            0,
            -1,
            2.0,
            0.5,
            1e9,
            70000000,
            True,
            False,
            None,
            "",
            "a",
            "worker",
            "1h30m",
            "0s",
            "90",
            "00:10:00",
            "1-2",
        ],
        *[
            "16Gi",
            "500m",
            "1.5",
            "0-3%2",
            "1,2,5-9:2",
            "torchrun",
            "Exists",
            "NoSchedule",
            "3g.20gb",
            "zone in (a,b), !x>",
            "any:prep-3",
            "any:",
            "A b",
        ],
    ]
)
keys = st.sampled_from([path.rpartition(".")[2] for path, _ in walk(JOB)] + ["worker", "ps", "gpu", "A=b", "é"])
anything = st.recursive(near, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))
examples = {field.name: schema()["properties"][field.name]["examples"][0] for field in JOB}


@st.composite
def near_jobs(draw):
    """Draws a job of example values, a few of them replaced by others."""
    document = {name: examples[name] for name in draw(st.sets(st.sampled_from(sorted(examples)), max_size=6))}
    document.setdefault("command", "python train.py")
    document.update(draw(st.dictionaries(keys, anything, max_size=2)))
    return document


@depth(400)
@given(near_jobs() | anything)
@example({"command": "python train.py", "restarts": 3, "restart": {"user": 2}})
@example({"roles": {"a": {"command": "x"}, "b": {}}})
@example({"roles": {"a": {"command": "x"}}, "nodes": 2})
@example({"roles": {"a": {"command": "x"}}, "elastic": {"min": 2, "max": 3}})
@example({"roles": {"a": {"command": "x", "gpus": 2, "mig": "1g.10gb"}}})
@example({"command": "x", "elastic": {"min": 2, "max": 3}, "nodes": 2})
@example({"command": "x", "elastic": {"min": 2}})
@example({"command": "x", "gpus": 0, "gpu_share": 0.5, "mig": None})
@example({"command": "x", "topology": {"spread": True}})
@example({"command": "x", "array": 2.0})
def test_the_schema_accepts_what_the_parser_accepts(document):
    assume(not beyond_a_schema(document))
    accepted = read(json.dumps(document)) is not None
    assert accepted == valid(document, schema()), document


def beyond_a_schema(document):
    """Whether a document may violate rules that the schema cannot state: elastic bounds, agents, schedules."""
    if not isinstance(document, dict):
        return False
    if any(name in document for name in SCHEDULE_FIELDS):
        times = ("cron", "time_zone")
        is_plain = all(document.get(name, examples[name]) == examples[name] for name in times)
        if not is_plain or "cron" not in document or "after" in document:
            return True
    started = document.get("command") == "python train.py" and "roles" not in document
    if document.get("agent") and not (started and document.get("launcher", "agent") == "agent"):
        return True
    roles = document.get("roles")
    tables = [document, *(roles.values() if isinstance(roles, dict) else ())]
    elastic = [table["elastic"] for table in tables if isinstance(table, dict) and table.get("elastic")]
    bounds = [(each.get("min"), each.get("max")) for each in elastic if isinstance(each, dict)]
    inverted = any(is_type(a, "number") and is_type(b, "number") and a > b for a, b in bounds)
    return inverted or len(elastic) > 1


@pytest.mark.parametrize("name", sorted(examples))
def test_every_example_is_accepted(name):
    document = {"command": "python train.py", name: examples[name]}
    if name == "roles":
        del document["command"]
    if name in SCHEDULE_FIELDS:
        document["cron"] = examples["cron"]
    assert loads(json.dumps(document))


def valid(value, rules):
    """Validates by the part of JSON Schema 2020-12 that `schema` uses."""
    return all(CHECKS[word](value, argument, rules) for word, argument in rules.items() if word in CHECKS)


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("number", "integer"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (name == "number" or float(value).is_integer())
    return isinstance(value, TYPES[name])


def check_additional(value, argument, rules):
    if not isinstance(value, dict):
        return True
    rest = {key: item for key, item in value.items() if key not in rules.get("properties", {})}
    return not rest if argument is False else all(valid(item, argument) for item in rest.values())


CHECKS = {
    "type": lambda v, a, _: any(is_type(v, name) for name in ([a] if isinstance(a, str) else a)),
    "enum": lambda v, a, _: any(v == item and type(v) is type(item) for item in a),
    "pattern": lambda v, a, _: not isinstance(v, str) or re.search(a, v) is not None,
    "minLength": lambda v, a, _: not isinstance(v, str) or len(v) >= a,
    "minimum": lambda v, a, _: not is_type(v, "number") or v >= a,
    "maximum": lambda v, a, _: not is_type(v, "number") or v <= a,
    "anyOf": lambda v, a, _: any(valid(v, each) for each in a),
    "allOf": lambda v, a, _: all(valid(v, each) for each in a),
    "oneOf": lambda v, a, _: sum(valid(v, each) for each in a) == 1,
    "not": lambda v, a, _: not valid(v, a),
    "required": lambda v, a, _: not isinstance(v, dict) or all(name in v for name in a),
    "minProperties": lambda v, a, _: not isinstance(v, dict) or len(v) >= a,
    "minItems": lambda v, a, _: not isinstance(v, list) or len(v) >= a,
    "properties": lambda v, a, _: (
        not isinstance(v, dict) or all(valid(v[name], each) for name, each in a.items() if name in v)
    ),
    "propertyNames": lambda v, a, _: not isinstance(v, dict) or all(valid(name, a) for name in v),
    "additionalProperties": check_additional,
    "prefixItems": lambda v, a, _: not isinstance(v, list) or all(map(valid, v, a)),
    "items": lambda v, a, r: (
        not isinstance(v, list) or all(valid(item, a) for item in v[len(r.get("prefixItems", ())) :])
    ),
}


@given(durations)
def test_a_duration_reads_back(ms):
    assert parse_duration(format_duration(ms)) == ms


@given(st.from_regex(f"{UNITS}|{SLURM}", fullmatch=True).filter(bool))
def test_every_duration_of_the_pattern_is_accepted(written):
    assert re.search(PATTERN, written)
    assert 0 <= parse_duration(written) <= MAX_DURATION


@given(arrays, st.integers(0, 999_999))
def test_an_array_reads_back(indexes, limit):
    assert parse_array(format_array(indexes, limit)) == (indexes, limit)


@given(st.text())
def test_any_text_becomes_a_valid_name(written):
    name = valid_name(written)
    assert is_name(JOB_NAME, name)
    assert len(name) <= MAX_NAME
