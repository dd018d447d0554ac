"""Parts of pod templates merged over a whole one."""

import pytest

from windlass.jobs.kubernetes.pods.strategic_merge import merge

BELOW = {
    "nodeSelector": {"a": "1"},
    "tolerations": [{"key": "a"}],
    "containers": [{"name": "main", "image": "i", "args": ["x", "y"]}, {"name": "log", "image": "l"}],
}


@pytest.mark.parametrize(
    ("above", "result"),
    [
        ({"nodeSelector": {"b": "2"}}, {"nodeSelector": {"a": "1", "b": "2"}}),
        ({"nodeSelector": {"a": None}}, {"nodeSelector": {}}),
        ({"nodeSelector": None}, {}),
        ({"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "a"}, {"key": "b"}]}),
        (
            {"containers": [{"name": "log", "image": "k"}]},
            {"containers": [BELOW["containers"][0], {"name": "log", "image": "k"}]},
        ),
        ({"containers": [{"name": "new"}]}, {"containers": [*BELOW["containers"], {"name": "new"}]}),
        ({"containers": "none"}, {"containers": "none"}),
        ({"hostNetwork": True}, {"hostNetwork": True}),
    ],
)
def test_the_upper_mapping_wins(above, result):
    before = repr(BELOW)
    kept = {name: value for name, value in BELOW.items() if name not in above}
    assert merge(BELOW, above) == {**kept, **result}
    assert repr(BELOW) == before


def test_lists_without_names_are_replaced_as_a_whole():
    over = {"containers": [{"name": "main", "args": ["z"], "env": [{"name": "A", "value": "1"}]}]}
    main = merge(BELOW, over)["containers"][0]
    assert main == {"name": "main", "image": "i", "args": ["z"], "env": [{"name": "A", "value": "1"}]}
