"""Objects of ended jobs as new submissions."""

from windlass.backends.kubernetes.gangs.repeated_object import repeated_object


def again(**manifest):
    about = {
        "name": "digits",
        "namespace": "team-a",
        "uid": "1",
        "resourceVersion": "7",
        **manifest.pop("metadata", {}),
    }
    whole = {"kind": "TrainingJob", "metadata": about, "spec": {}, "status": {"phase": "Failed"}, **manifest}
    return repeated_object(whole, "digits", "team-a/digits", "eve", "x7k2p")


def test_the_object_has_another_name_and_none_of_the_state_of_the_first():
    state = {"windlass.dev/cancel": "ann", "windlass.dev/user": "ann", "windlass.dev/state": "{}", "note": "kept"}
    made = again(metadata={"annotations": state, "finalizers": ["x"], "ownerReferences": [{"uid": "2"}]})
    assert made == {
        "kind": "TrainingJob",
        "metadata": {
            "namespace": "team-a",
            "generateName": "digits-",
            "name": "digits-x7k2p",
            "labels": {},
            "annotations": {
                "note": "kept",
                "windlass.dev/rerun-of": "team-a/digits",
                "windlass.dev/user": "eve",
                "windlass.dev/name": "digits",
            },
        },
        "spec": {},
    }


def test_a_run_of_a_run_is_named_after_the_first():
    made = again(metadata={"name": "digits-abcde", "generateName": "digits-"})["metadata"]
    assert (made["generateName"], made["name"]) == ("digits-", "digits-x7k2p")


def test_a_long_name_is_cut_before_its_random_end():
    name = again(metadata={"name": "x" * 63})["metadata"]["name"]
    assert name == "x" * 58 + "x7k2p"


def test_it_is_alone_waits_for_nothing_and_is_not_suspended():
    labels = {"windlass.dev/array": "digits-1", "windlass.dev/array-index": "0", "team": "vision"}
    made = again(metadata={"labels": labels}, spec={"after": ["prepare"], "suspend": True, "command": "x"})
    assert made["metadata"]["labels"] == {"team": "vision"}
    assert made["spec"] == {"suspend": False, "command": "x"}
    made = again(kind="PyTorchJob", spec={"runPolicy": {"suspend": True, "backoffLimit": 1}})
    assert made["spec"] == {"runPolicy": {"suspend": False, "backoffLimit": 1}}
    assert "windlass.dev/name" not in made["metadata"]["annotations"]
