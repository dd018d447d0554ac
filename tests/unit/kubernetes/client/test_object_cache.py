from api_objects import listing, thing

from windlass.backends.kubernetes.client.object_cache import (
    MAX_TOMBSTONES,
    Change,
    ObjectCache,
    ObjectRevision,
    object_revision,
)


def held(fresh):
    return {name: object_revision(object).version for (_, name), object in fresh.objects.items()}


def test_a_new_object_is_added_and_a_newer_state_modifies_it():
    fresh, old, new = ObjectCache(), thing("a", 1), thing("a", 2)
    assert fresh.put(old) == [Change("added", old)]
    assert fresh.put(new) == [Change("modified", new, old)]
    assert fresh.get("ns", "a") is new


def test_an_event_that_is_older_than_an_own_write_changes_nothing():
    fresh = ObjectCache()
    fresh.put(thing("a", 1))
    fresh.put(thing("a", 5))
    assert fresh.put(thing("a", 3)) == []
    assert fresh.put(thing("a", 5)) == []
    assert held(fresh) == {"a": 5}


def test_a_deletion_reports_the_last_state():
    fresh, old = ObjectCache(), thing("a", 1)
    fresh.put(old)
    last = thing("a", 2, status="x")
    assert fresh.remove(object_revision(last), last) == [Change("deleted", last, old)]
    assert fresh.get("ns", "a") is None
    assert fresh.remove(object_revision(last), last) == []


def test_a_late_reply_does_not_bring_a_deleted_object_back():
    fresh = ObjectCache()
    fresh.put(thing("a", 1))
    fresh.remove(object_revision(thing("a", 3)))
    assert fresh.put(thing("a", 2)) == []
    assert held(fresh) == {}


def test_a_deletion_of_a_recreated_object_keeps_the_new_one():
    fresh, old, new = ObjectCache(), thing("a", 1, "u1"), thing("a", 4, "u2")
    fresh.put(old)
    assert fresh.put(new) == [Change("deleted", old, old), Change("added", new)]
    assert fresh.remove(object_revision(thing("a", 3, "u1"))) == []
    assert fresh.get("ns", "a") is new


def test_a_list_reports_the_differences():
    fresh = ObjectCache()
    same, old, lost = thing("same", 1), thing("changed", 2), thing("lost", 3)
    fresh.replace(listing(3, same, old, lost))
    new, more = thing("changed", 7), thing("more", 8)
    assert fresh.replace(listing(9, same, new, more)) == [
        Change("modified", new, old),
        Change("added", more),
        Change("deleted", lost, lost),
    ]


def test_a_list_keeps_objects_written_while_it_was_read():
    fresh = ObjectCache()
    fresh.put(thing("mine", 12))
    fresh.put(thing("changed", 13))
    assert fresh.replace(listing(10, thing("changed", 9))) == []
    assert held(fresh) == {"mine": 12, "changed": 13}


def test_a_list_deletes_an_object_that_was_recreated_under_its_name():
    fresh, old, new = ObjectCache(), thing("a", 1, "u1"), thing("a", 4, "u2")
    fresh.put(old)
    assert fresh.replace(listing(5, new)) == [Change("deleted", old, old), Change("added", new)]


def test_a_list_replaces_all_objects_after_a_restored_backup():
    fresh = ObjectCache()
    old, lost = thing("a", 100), thing("lost", 101)
    fresh.replace(listing(101, old, lost))
    before = thing("a", 40)
    assert fresh.replace(listing(50, before), reset=True) == [
        Change("modified", before, old),
        Change("deleted", lost, lost),
    ]
    assert fresh.put(thing("lost", 60)) == [Change("added", thing("lost", 60))]


def test_the_memory_of_deleted_objects_is_bounded():
    fresh = ObjectCache()
    for number in range(MAX_TOMBSTONES + 5):
        fresh.remove(ObjectRevision("ns", f"n{number}", f"u{number}", number))
    assert len(fresh._tombstones) == MAX_TOMBSTONES
    assert fresh.put(thing("n0", 0, "u0")) != []
