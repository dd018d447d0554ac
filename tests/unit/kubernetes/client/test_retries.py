import pytest

from windlass.backends.kubernetes.client.retries import JSON, JSON_PATCH, MERGE_PATCH, is_repeatable, retry_delay

NAMED = {"metadata": {"name": "p"}}
NAMELESS = {"metadata": {"generateName": "p-"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "expected"),
    [
        ("GET", "/api/v1/pods", None, JSON, True),
        ("PUT", "/api/v1/namespaces/ns/pods/p", NAMED, JSON, True),
        ("POST", "/api/v1/namespaces/ns/pods", NAMED, JSON, True),
        ("POST", "/api/v1/namespaces/ns/pods", NAMELESS, JSON, False),
        ("POST", "/api/v1/namespaces/ns/pods", b"{}", JSON, False),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", {}, JSON, True),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", {}, JSON, True),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", {"gracePeriodSeconds": 0}, JSON, False),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", {"preconditions": {"uid": "u"}}, JSON, True),
        ("PATCH", "/api/v1/namespaces/ns/pods/p", {"metadata": {}}, MERGE_PATCH, True),
        ("PATCH", "/api/v1/namespaces/ns/pods/p", [{"op": "add"}], JSON_PATCH, False),
        ("PATCH", "/api/v1/namespaces/ns/pods/p", [{"op": "test"}, {"op": "add"}], JSON_PATCH, True),
    ],
)
def test_a_request_is_repeated_only_if_a_repetition_has_no_effect(method, path, body, kind, expected):
    assert is_repeatable(method, path, body, kind) is expected


def test_the_retry_delay_doubles_up_to_five_seconds():
    assert [round(retry_delay(attempt, None, 0.999), 1) for attempt in (0, 1, 2, 3, 7, 50)] == [
        0.0,
        0.1,
        0.2,
        0.4,
        5.0,
        5.0,
    ]
    assert retry_delay(3, None, 0.0) == 0.2


def test_the_delay_that_the_server_requests_is_a_minimum_and_spread_by_a_quarter():
    assert retry_delay(0, 4.0, 0.0) == 4.0
    assert retry_delay(9, 4.0, 0.999) == pytest.approx(5.05, abs=0.01)
