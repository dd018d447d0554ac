"""Removal of other namespaces' jobs from answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.status.redaction import HIDDEN, named_namespaces, redact

KNOWN = {"team-a", "team-b", "default"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team-a/big", HIDDEN),
        ("team-a/pytorchjob/big", HIDDEN),
        (
            "waits for team-a/big, team-b/mine and team-a/podgroup/x.y-1",
            f"waits for {HIDDEN}, team-b/mine and {HIDDEN}",
        ),
        ("ends with team-a/big.", f"ends with {HIDDEN}."),
        ("(team-a:big)", "(team-a:big)"),
        ("nvidia.com/gpu of node team-a", "nvidia.com/gpu of node team-a"),
        ("xteam-a/big and team-ab/big", "xteam-a/big and team-ab/big"),
        ("apart/team-a/app=web", f"{HIDDEN}=web"),
        ("team-b/team-a/mine", "team-b/team-a/mine"),
        ("the label example.team-a/gang", "the label example.team-a/gang"),
        ("", ""),
    ],
)
def test_ids_of_hidden_namespaces_are_replaced(text, expected):
    assert redact(text, {"team-a"}) == expected


def test_values_keys_and_messages_are_redacted_and_counts_stay():
    answer = {"jobs": [{"id": "team-a/x"}, {"id": "team-a/y"}], "team-a/x": 3, "n": 2, "none": None, "t": ("team-a/z",)}
    found = redact(answer, {"team-a"})
    assert found == {"jobs": [{"id": HIDDEN}, {"id": HIDDEN}], HIDDEN: 3, "n": 2, "none": None, "t": [HIDDEN]}
    assert redact(answer, set()) is answer


def test_the_namespaces_of_an_answer_are_found():
    answer = {"id": "team-b/mine", "why": {"message": "waits for team-a/big on n1/x", "nodes": ["kube-system/y"]}}
    assert named_namespaces(answer, KNOWN) == {"team-a", "team-b"}


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(
    namespace=NAMES, name=NAMES, before=st.sampled_from(["", "by ", "(", '"', ", "]), after=st.text(" ,.)", max_size=2)
)
def test_no_id_of_a_hidden_namespace_is_left(namespace, name, before, after):
    text = f"{before}{namespace}/{name}{after}"
    assert named_namespaces(text, {namespace}) == {namespace}
    assert redact(text, {namespace}) == f"{before}{HIDDEN}{after}"
