import orjson
import pytest
from api_objects import event, listing, thing

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.mirror import Mirror


@pytest.fixture
def reported():
    return []


@pytest.fixture
def mirror(reported):
    return Mirror(orjson.loads, reported.append)


def kinds(changes):
    return [(change.kind, change.object["metadata"]["name"]) for change in changes]


def test_a_list_is_followed_by_a_watch(mirror):
    assert mirror.must_list
    assert kinds(mirror.apply_list(listing(5, thing("a", 1)))) == [("added", "a")]
    assert (mirror.position, mirror.must_list) == (5, False)
    batch = [event("ADDED", thing("b", 6)), event("MODIFIED", thing("a", 7)), event("DELETED", thing("b", 8))]
    assert kinds(mirror.apply_events(batch)) == [("added", "b"), ("modified", "a"), ("deleted", "b")]
    assert mirror.position == 8


def test_a_bookmark_advances_the_position_without_a_change(mirror):
    mirror.apply_list(listing(5))
    assert mirror.apply_events([event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})]) == []
    assert mirror.position == 90


def test_a_malformed_object_is_reported_by_name_and_others_are_applied(reported):
    mirror = Mirror(objects.pod, reported.append)
    bad = [event("ADDED", thing(f"bad-{number}", 10 + number, spec=7)) for number in range(10_000)]
    good = event("ADDED", thing("good", 20_000, spec={"containers": []}))
    mirror.apply_list(listing(5))
    assert [change.object.metadata.name for change in mirror.apply_events([*bad, good])] == ["good"]
    assert mirror.position == 20_000
    assert len(reported) == 10_000
    assert (reported[0].revision.namespace, reported[0].revision.name) == ("ns", "bad-0")
    assert "spec" in reported[0].why


@pytest.mark.parametrize(
    "odd", [7, None, [], {}, {"metadata": None}, {"metadata": {"name": 7, "resourceVersion": "x"}}]
)
def test_a_malformed_object_is_reported_and_left_out(mirror, reported, odd):
    mirror.apply_list(listing(5))
    assert mirror.apply_events([event("ADDED", odd), event("DELETED", odd), event("BOOKMARK", odd)]) == []
    assert [malformed.revision for malformed in reported] == [None, None]
    assert (mirror.position, mirror.must_list) == (5, False)


def test_an_object_that_became_malformed_stays_as_it_was_until_it_is_deleted(reported):
    mirror = Mirror(objects.pod, reported.append)
    good = objects.pod(orjson.dumps(thing("a", 1, spec={})))
    mirror.apply_list(listing(5, good))
    mirror.apply_events([event("MODIFIED", thing("a", 6, spec=7))])
    assert mirror.cache.get("ns", "a") is good
    assert mirror.decode_listed(orjson.dumps(thing("a", 6, spec=7))) is None
    assert mirror.apply_list(listing(9)) == []
    changes = mirror.apply_events([event("DELETED", thing("a", 10, spec=7))])
    assert [(change.kind, change.object) for change in changes] == [("deleted", good)]


def test_a_version_that_decreases_means_a_restored_history(mirror):
    mirror.apply_list(listing(100, thing("a", 90), thing("b", 91)))
    assert mirror.apply_events([event("MODIFIED", thing("a", 40))]) == []
    assert mirror.must_list
    assert kinds(mirror.apply_list(listing(50, thing("a", 40)))) == [("modified", "a"), ("deleted", "b")]
    assert (mirror.position, mirror.must_list) == (50, False)
