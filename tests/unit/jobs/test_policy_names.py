"""Policies by name, by example."""

from dataclasses import replace

import pytest

from windlass.core.model.policy import Policy
from windlass.core.queues.orders.registry import POLICIES
from windlass.jobs.cluster.policy_names import read_policies, read_policy


def error_of(*texts):
    with pytest.raises(ValueError) as error:
        read_policies(texts)
    return str(error.value)


def test_a_name_is_the_policy_of_that_name():
    assert read_policies(["fifo,easy,windlass"]) == {name: POLICIES[name] for name in ("fifo", "easy", "windlass")}


def test_additions_change_the_policy():
    assert read_policy("fifo+easy") == POLICIES["easy"]
    assert read_policy("fifo+conservative") == POLICIES["conservative"]
    assert read_policy("sjf+strict+nopreempt") == replace(POLICIES["sjf"], reservations=0, preempt=False)


def test_a_policy_without_a_starvation_guard_has_none():
    assert {name for name, policy in POLICIES.items() if policy.starvation_guard} == {"windlass"}
    assert read_policy("windlass+strict").starvation_guard == 0
    assert read_policy("easy:starvation_guard=0s").starvation_guard == 0
    assert read_policy("windlass:starvation_guard=1h").starvation_guard == 3_600_000


def test_settings_follow_a_colon():
    given = read_policy("windlass:reservations=4,min-runtime=10m,preempt=false")
    assert given == Policy("windlass", reservations=4, min_runtime=600_000, preempt=False)
    assert read_policy("las:service_limits=1h/4h").service_limits == (3_600_000, 14_400_000)


def test_a_clusters_own_policy_has_a_name_too():
    own = Policy("fair", min_runtime=1, starvation_guard=0)
    assert read_policies(["cluster,fifo", "cluster+easy"], own) == {
        "cluster": own,
        "fifo": POLICIES["fifo"],
        "cluster+easy": replace(own, reservations=1),
    }
    assert "there is no policy 'cluster'" in error_of("cluster")


def test_a_setting_in_a_list_belongs_to_the_policy_before_it():
    found = read_policies(["windlass:reservations=4,age-penalty=50,fifo", "sjf:reservations=2"])
    assert list(found) == ["windlass:reservations=4,age-penalty=50", "fifo", "sjf:reservations=2"]
    assert found["windlass:reservations=4,age-penalty=50"].age_penalty == 50


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fif", "there is no policy 'fif'; did you mean 'fifo'?"),
        ("zzz", "there is no policy 'zzz'; "),
        ("fifo+esy", "a policy has no addition 'esy'; did you mean 'easy'?"),
        ("windlass:reservation=4", "there is no setting 'reservation'; did you mean 'reservations'?"),
        ("windlass:reservations", "'reservations' is no setting; write it as name=value"),
        ("windlass:reservations=many", "reservations expects a whole number"),
        ("windlass:order=fifo", "there is no setting 'order'"),
        ("windlass:age-penalty=1,age-penalty=2", "age-penalty is given twice"),
        (
            "easy:starvation_guard=1h",
            "'easy:starvation_guard=1h': starvation_guard has no effect under order fifo: leave it out, or use order",
        ),
        ("windlass+strict:starvation_guard=1h", "starvation_guard has no effect without reservations: leave it out"),
        ("fifo,fifo", "'fifo' is named twice"),
        (" , ", "names no policy; there are fifo, "),
    ],
)
def test_a_fault_is_reported_with_the_fix(text, message):
    assert message in error_of(text)
