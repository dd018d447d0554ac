"""Jobs of a cluster by name, and the errors for a name that means none or several."""

import pytest

from windlass.core.model.status import Phase

ON = ("--on", "kubernetes")
IMAGE = ("--image", "example.com/train:1")


def test_an_unknown_name_is_reported_with_the_nearest_one(cluster, submit, windlass):
    submit(*IMAGE, "--name", "digits", "--", "true")

    ran = windlass("cancel", *ON, "digitz")

    assert ran.code == 4
    name = cluster.of_kind("TrainingJob")[0]["metadata"]["name"]
    assert ran.err.splitlines() == [
        f"windlass: no job 'digitz' in namespace team; did you mean team/{name}?",
        "windlass queue lists jobs, windlass history those that ended; -n NAMESPACE looks in another namespace",
    ]


def test_a_living_job_is_meant_before_an_ended_later_one_of_its_name(cluster, submit, windlass):
    first, later = (submit(*IMAGE, "--name", "digits", "--", "true").out.strip() for _ in range(2))
    cluster.commit(later.partition("/")[2], phase=Phase.SUCCEEDED, created_at=1, finished_at=2)

    assert windlass("cancel", *ON, "digits").out == f"{first} is being cancelled\n"


def test_a_name_of_several_living_jobs_is_an_error_that_lists_their_ids(cluster, submit, windlass):
    ids = [submit(*IMAGE, "--name", "digits", "--", "true").out.strip() for _ in range(2)]

    ran = windlass("cancel", *ON, "digits")

    assert (ran.code, ran.out) == (4, "")
    assert ran.err == f"windlass: 'digits' may be any of 2 jobs: {', '.join(ids)}\nuse the whole id\n"
    noted = [each["metadata"].get("annotations") or {} for each in cluster.of_kind("TrainingJob")]
    assert all("windlass.dev/cancel" not in annotations for annotations in noted)


def test_the_name_of_an_array_selects_all_its_members(cluster, submit, windlass):
    submit("--array", "0-2", *IMAGE, "--name", "sweep", "--", "python", "train.py")

    assert windlass("cancel", *ON, "sweep").out.count("is being cancelled") == 3


VERBS = [("why",), ("status",), ("logs",), ("cancel",), ("suspend",), ("resume",), ("exec", "--", "ls")]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_job_of_another_namespace_is_named(cluster, submit, windlass, verb):
    submit(*IMAGE, "-n", "research", "--name", "digits", "--", "true")
    name = cluster.of_kind("TrainingJob")[0]["metadata"]["name"]

    ran = windlass(verb[0], *ON, "digits", *verb[1:])

    assert ran.code == 4
    assert f"no job 'digits' in namespace team; there is research/{name}\nuse that name, or -n research" in ran.err


def test_a_user_without_list_permission_gets_no_suggestion(cluster, submit, windlass):
    submit(*IMAGE, "-n", "research", "--name", "digits", "--", "true")
    cluster.hidden |= {"pytorchjobs"}

    ran = windlass("why", *ON, "digits")

    assert ran.code == 4
    assert ran.err.startswith("windlass: no job 'digits' in namespace team\n")
