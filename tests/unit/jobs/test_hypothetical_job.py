"""Jobs with changed requests."""

import pytest

from windlass.core.model.job import ArrayMember, Job, Role
from windlass.jobs.description.hypothetical_job import with_changes

JOB = Job(
    "digits",
    (Role("worker", 2, 4, {"gpu": 4}, ("python", "train.py"), env={"A": "1"}),),
    array=ArrayMember("digits-1", 3),
    labels={"team": "vision"},
    user="ada",
)


def test_other_fields_stay_as_they_are():
    other = with_changes(JOB, "gpus=2 time=1h")
    assert (other.roles[0].resources, other.walltime) == ({"gpu": 2}, 3_600_000)
    assert (other.roles[0].replicas, other.roles[0].env, other.array, other.user) == (2, {"A": "1"}, JOB.array, "ada")


def test_names_of_options_and_of_fields_are_accepted():
    assert with_changes(JOB, "replicas=1").roles[0].replicas == with_changes(JOB, "nodes=1").roles[0].replicas == 1
    assert with_changes(JOB, "gpu-share=0.5").roles[0].resources == {"gpu-milli": 500}
    assert with_changes(JOB, "nodes=1:4").roles[0].elastic
    assert with_changes(JOB, "queue=b priority=-3 preemptible=false").priority == -3
    assert with_changes(JOB, "affinity='zone in (a,b)'").roles[0].affinity[0][0].values == ("a", "b")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "says nothing; write for example gpus=4"),
        ("gpu=2", "'gpu' is nothing that could be asked for otherwise; did you mean 'gpus'?"),
        ("gpus=2 gpus=3", "gpus is given twice"),
        ("gpus", "'gpus' is no change; write for example gpus=2"),
        ("gpus=many", "gpus is a number, not 'many'"),
        ("preemptible=no", "preemptible is true or false, not 'no'"),
        ("queue='b", "has quotes that are not balanced"),
        ("gpus=2 mig=3g.20gb", "gpus and mig are two ways to ask for GPUs; keep one of them"),
    ],
)
def test_an_unreadable_request_is_refused_with_an_example(words, message):
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(").replace("?", r"\?")):
        with_changes(JOB, words)
