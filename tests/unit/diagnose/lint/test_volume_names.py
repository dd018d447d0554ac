"""A mount whose volume is misspelt, and the volume that it means."""

import json

import pytest

from windlass.diagnose.lint.engine import lint_texts
from windlass.jobs.syntax.text import Text


def mounts(*names, volumes):
    """A pod with mounts of some names and with volumes."""
    made = [{"name": name, "mountPath": f"/{number}"} for number, name in enumerate(names)]
    container = {"name": "a", "image": "train:1", "volumeMounts": made}
    spec = {"volumes": [{"name": name, "emptyDir": {}} for name in volumes], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (mounts("dat", volumes=["data"]), [("volume-mount-unknown", "data")]),
        (mounts("dat", "dat", volumes=["data"]), [("volume-mount-unknown", "data")] * 2),
        (mounts("data", "dat", volumes=["data"]), [("volume-mount-unknown", None)]),
        (
            mounts("dat", volumes=["data", "date"]),
            [("volume-unused", None), ("volume-unused", None), ("volume-mount-unknown", None)],
        ),
        (mounts("code", volumes=["data"]), [("volume-unused", None), ("volume-mount-unknown", None)]),
    ],
)
def test_a_misspelt_volume_is_mended_where_one_unused_name_is_close(document, found):
    hits = lint_texts([Text("a.yaml", json.dumps(document, sort_keys=True))])
    hits = [each for each in hits if each.rule.startswith("volume-")]
    assert sorted((each.rule, each.replacement) for each in hits) == sorted(found, key=str)
    assert all(("did you mean 'data'?" in each.message) == (each.replacement == "data") for each in hits)
