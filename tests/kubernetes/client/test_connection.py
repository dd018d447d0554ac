import asyncio
import contextlib

import pytest
from client.fake_api import fake_api, hangs_up, page, pod, refuses, says

from windlass.backends.kubernetes.client import connection as connection_module
from windlass.backends.kubernetes.client.access import Access, Identity
from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Outcome, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, PODS

ANOTHER_TIME = refuses(429, "TooManyRequests", **{"Retry-After": "0"})
CONFIG_MAP = {"metadata": {"name": "c", "namespace": "ns"}}


@contextlib.asynccontextmanager
async def against(*tricks, usual=None, **options):
    async with (
        fake_api(*tricks, usual=usual) as api,
        Connection(constant_access(api.url, authorization="Bearer t"), **options) as connection,
    ):
        yield api, connection


def with_metadata(**fields):
    return pod(metadata={**pod()["metadata"], **fields})


def with_gate():
    return pod(spec={**pod()["spec"], "schedulingGates": [{"name": "example.com/gate"}]})


def test_an_object_is_requested_with_the_token():
    async def story():
        async with against(says(pod())) as (api, connection):
            assert (await connection.get(PODS, "ns", "p"))["metadata"]["name"] == "p"
            assert (api.seen[0].method, api.seen[0].path) == ("GET", "/api/v1/namespaces/ns/pods/p")
            assert api.seen[0].headers["Authorization"] == "Bearer t"

    asyncio.run(story())


def test_every_verb_sends_the_expected_request():
    async def story():
        async with against(usual=says(CONFIG_MAP)) as (api, connection):
            await connection.create(CONFIG_MAPS, CONFIG_MAP)
            await connection.replace(CONFIG_MAPS, CONFIG_MAP)
            await connection.patch(CONFIG_MAPS, "ns", "c", {"data": {"a": "b"}})
            await connection.patch(CONFIG_MAPS, "ns", "c", CONFIG_MAP, kind="apply", force=True)
            await connection.patch(PODS, "ns", "p", [{"op": "test"}], kind="json", subresource="status")
            await connection.delete(CONFIG_MAPS, "ns", "c", grace=3, propagation="Background", uid="u")
            await connection.evict("ns", "p", 30, uid="u")
        where = "/api/v1/namespaces/ns/configmaps"
        assert [(seen.method, seen.path) for seen in api.seen] == [
            ("POST", where),
            ("PUT", f"{where}/c"),
            ("PATCH", f"{where}/c"),
            ("PATCH", f"{where}/c"),
            ("PATCH", "/api/v1/namespaces/ns/pods/p/status"),
            ("DELETE", f"{where}/c"),
            ("POST", "/api/v1/namespaces/ns/pods/p/eviction"),
        ]
        assert [seen.headers["Content-Type"].removeprefix("application/") for seen in api.seen] == [
            "json",
            "json",
            "merge-patch+json",
            "apply-patch+yaml",
            "json-patch+json",
            "json",
            "json",
        ]
        assert api.seen[3].query == {"fieldManager": "windlass", "force": "true"}
        assert api.seen[5].json == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 3,
            "propagationPolicy": "Background",
            "preconditions": {"uid": "u"},
        }
        assert api.seen[6].json["deleteOptions"] == {"gracePeriodSeconds": 30, "preconditions": {"uid": "u"}}

    asyncio.run(story())


def test_a_rejected_request_of_any_verb_is_repeated():
    async def story():
        nameless = {"metadata": {"generateName": "c-", "namespace": "ns"}}
        async with against(ANOTHER_TIME, ANOTHER_TIME, says(CONFIG_MAP)) as (api, connection):
            await connection.create(CONFIG_MAPS, nameless)
            assert len(api.seen) == 3

    asyncio.run(story())


def test_a_request_is_not_repeated_before_the_delay_of_the_server():
    async def story():
        async with against(refuses(503, **{"Retry-After": "1"}), says(pod())) as (_, connection):
            clock = asyncio.get_running_loop().time
            begin = clock()
            await connection.get(PODS, "ns", "p")
            assert clock() - begin >= 1

    asyncio.run(story())


def test_a_delay_beyond_the_limit_is_reported_at_once():
    async def story():
        async with against(refuses(429, **{"Retry-After": "60"})) as (_, connection):
            with pytest.raises(ApiError) as raised:
                await connection.get(PODS, "ns", "p", within=5)
            assert raised.value.status == 429
            assert raised.value.retry_after == 60

    asyncio.run(story())


def test_a_create_whose_reply_was_lost_ends_with_already_exists():
    async def story():
        async with against(hangs_up, refuses(409, "AlreadyExists")) as (api, connection):
            with pytest.raises(ApiError) as raised:
                await connection.create(CONFIG_MAPS, CONFIG_MAP)
            assert raised.value.is_exists
            assert raised.value.unsure
            assert len(api.seen) == 2

    asyncio.run(story())


def test_a_create_without_a_name_is_not_sent_twice():
    async def story():
        async with against(hangs_up) as (api, connection):
            with pytest.raises(Unreachable) as raised:
                await connection.create(CONFIG_MAPS, {"metadata": {"generateName": "c-", "namespace": "ns"}})
            assert raised.value.unsure
            assert len(api.seen) == 1

    asyncio.run(story())


@pytest.mark.parametrize(("uid", "times"), [(None, 1), ("u", 2)])
def test_a_deletion_is_repeated_only_with_preconditions(uid, times):
    async def story():
        async with against(says(pod()), hangs_up, usual=refuses(404, "NotFound")) as (api, connection):
            await connection.get(PODS, "ns", "p")
            with pytest.raises((ApiError, Unreachable)) as raised:
                await connection.delete(PODS, "ns", "p", uid=uid)
            assert raised.value.unsure
            assert [seen.method for seen in api.seen] == ["GET", *["DELETE"] * times]

    asyncio.run(story())


def test_a_request_without_a_timely_answer_is_repeated():
    async def story():
        async def sleeps(_request):
            await asyncio.sleep(30)

        async with against(sleeps, says(pod()), attempt=0.2) as (api, connection):
            await connection.get(PODS, "ns", "p")
            assert len(api.seen) == 2

    asyncio.run(story())


def test_a_missing_server_is_unreachable_after_the_timeout():
    async def story():
        async with fake_api() as api:
            pass
        async with Connection(constant_access(api.url)) as connection:
            with pytest.raises(Unreachable, match=f"no connection to {api.url}"):
                await connection.get(PODS, "ns", "p", within=0.3)

    asyncio.run(story())


def test_a_bind_whose_reply_was_lost_counts_if_the_pod_is_bound():
    async def story():
        conflict = refuses(409, "Conflict", 'pod p is already assigned to node "n1"')
        tricks = hangs_up, conflict, says(pod(node="n1")), conflict, says(pod(node="n1"))
        async with against(*tricks) as (api, connection):
            await connection.bind("ns", "p", "uid-p", "n1")
            assert api.seen[0].path == "/api/v1/namespaces/ns/pods/p/binding"
            assert api.seen[0].json["metadata"] == {"name": "p", "namespace": "ns", "uid": "uid-p"}
            assert api.seen[0].json["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
            await connection.bind("ns", "p", "uid-p", "n1")  # the last request of an earlier leader came late

    asyncio.run(story())


@pytest.mark.parametrize(
    "found",
    [pod(node="n2"), pod(uid="another"), with_metadata(deletionTimestamp="2026-01-01T00:00:00Z"), with_gate()],
    ids=["other node", "other pod", "being deleted", "gated"],
)
def test_a_conflict_of_a_bind_is_reported_at_once(found):
    async def story():
        async with against(refuses(409, "Conflict"), says(found)) as (_, connection):
            with pytest.raises(ApiError) as raised:
                await connection.bind("ns", "p", "uid-p", "n1")
            assert raised.value.is_conflict

    asyncio.run(story())


FULL = refuses(409, "Conflict", 'cannot be fulfilled on pods/binding "p": etcdserver: mvcc: database space exceeded')
"""The reply to a binding whose write etcd has refused."""


def test_a_bind_is_retried_after_a_conflict_that_the_pod_does_not_explain():
    async def story():
        async with against(FULL, says(pod()), FULL, says(pod()), says({})) as (api, connection):
            await connection.bind("ns", "p", "uid-p", "n1")
            assert [seen.method for seen in api.seen] == ["POST", "GET", "POST", "GET", "POST"]

    asyncio.run(story())


def test_a_bind_that_the_storage_refuses_to_the_end_is_a_failure_of_the_server(monkeypatch):
    monkeypatch.setattr(connection_module, "retry_delay", lambda *_: 60)

    async def story():
        async with against(FULL, says(pod())) as (_, connection):
            with pytest.raises(ApiError, match="database space exceeded") as raised:
                await connection.bind("ns", "p", "uid-p", "n1")
            assert raised.value.outcome is Outcome.UNKNOWN

    asyncio.run(story())


def test_an_eviction_that_a_budget_forbids_is_reported_at_once():
    async def story():
        details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}
        async with against(refuses(429, "TooManyRequests", details=details)) as (_, connection):
            with pytest.raises(ApiError) as raised:
                await connection.evict("ns", "p")
            assert raised.value.is_budget

    asyncio.run(story())


def test_a_follower_sends_no_writes_and_still_reads():
    async def story():
        async with against(says(pod()), may_write=lambda: False) as (api, connection):
            with pytest.raises(NotLeader):
                await connection.bind("ns", "p", "uid-p", "n1")
            assert not api.seen
            await connection.get(PODS, "ns", "p")

    asyncio.run(story())


def test_a_lease_that_is_lost_while_others_hold_every_connection_stops_the_write():
    async def story():
        leader = True
        begun, held = asyncio.Event(), asyncio.Event()

        async def holds(_request):
            begun.set()
            await held.wait()
            return await says(pod())(_request)

        async with against(holds, may_write=lambda: leader, limit=1) as (api, connection):
            reading = asyncio.create_task(connection.get(PODS, "ns", "p"))
            await begun.wait()
            writing = asyncio.create_task(connection.bind("ns", "p", "uid-p", "n1"))
            await asyncio.sleep(0)
            leader = False
            held.set()
            await reading
            with pytest.raises(NotLeader):
                await writing
            assert len(api.seen) == 1

    asyncio.run(story())


def test_credentials_are_renewed_once_for_all_rejected_requests():
    async def story():
        renewals = 0

        async def identify(renew):
            nonlocal renewals
            renewals += renew
            return tokens[renewals]

        async def answer(request):
            good = request.headers["Authorization"] == "Bearer new"
            return await (says(pod()) if good else refuses(401, "Unauthorized"))(request)

        tokens = [Identity("Bearer old"), Identity("Bearer new")]
        async with (
            fake_api(usual=answer) as api,
            Connection(Access(api.url, identify)) as connection,
        ):
            await asyncio.gather(*(connection.get(PODS, "ns", "p") for _ in range(8)))
            assert renewals == 1

    asyncio.run(story())


def test_credentials_that_stay_refused_are_reported():
    async def story():
        async with against(usual=refuses(401, "Unauthorized")) as (api, connection):
            with pytest.raises(ApiError) as raised:
                await connection.get(PODS, "ns", "p")
            assert raised.value.is_unauthorized
            assert len(api.seen) == 2

    asyncio.run(story())


def test_a_list_is_read_in_pages():
    async def story():
        async with against(page(pod("a"), rest="t/2="), page(pod("b"))) as (api, connection):
            found = await connection.list(PODS, selector="app in (a, b)", fields="spec.nodeName=")
            assert [item["metadata"]["name"] for item in found] == ["a", "b"]
            asked = {"labelSelector": "app in (a, b)", "fieldSelector": "spec.nodeName=", "limit": "500"}
            assert [seen.query for seen in api.seen] == [asked, {**asked, "continue": "t/2="}]
            assert api.seen[0].path == "/api/v1/pods"

    asyncio.run(story())


def test_a_list_with_an_expired_continuation_starts_over_without_pages():
    async def story():
        tricks = [page(pod("a"), rest="t"), refuses(410, "Expired"), page(pod("b"), pod("c"))]
        async with against(*tricks) as (api, connection):
            found = await connection.list(PODS, "ns")
            assert [item["metadata"]["name"] for item in found] == ["b", "c"]
            assert "limit" not in api.seen[2].query

    asyncio.run(story())


def test_the_page_of_a_proxy_is_shown_in_the_error():
    async def story():
        async def proxy(_request):
            return await says("<html>Blocked</html>", 403)(_request)

        async with against(proxy) as (_, connection):
            with pytest.raises(ApiError, match="Blocked") as raised:
                await connection.get(PODS, "ns", "p")
            assert raised.value.is_forbidden

    asyncio.run(story())
