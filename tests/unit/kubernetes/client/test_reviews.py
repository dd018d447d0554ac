"""Reviews of tokens, rights and the caller: what is sent to the API server, and what a reply proves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from windlass.backends.kubernetes.client import reviews
from windlass.backends.kubernetes.client.reviews import AccessRight, User

ADA = {"username": "ada", "uid": "7", "groups": ["devs"], "extra": {"scopes": ["b", "a"]}}
PODS_STATUS = AccessRight("patch", "pods/status", "team")


class Api:
    """Answers each request with one reply, and keeps path and body."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reply = reply
        self.path, self.body = "", dict[str, Any]()

    async def request(self, _method: str, path: str, *, body: dict[str, Any], within: float | None) -> bytes:
        assert within is None
        self.path, self.body = path, body
        return json.dumps(self.reply).encode()


def user_of(status: dict[str, Any], *audiences: str) -> User | None:
    api: Any = Api({"status": status})
    return asyncio.run(reviews.review_token(api, "token", audiences))


def test_a_token_proves_its_user() -> None:
    user = user_of({"authenticated": True, "user": ADA})
    assert user == User("ada", "7", ("devs",), (("scopes", ("b", "a")),))
    assert user.values_of("scopes") == ("b", "a")
    assert user.values_of("pods") == ()


def test_a_token_that_is_not_authenticated_proves_no_user() -> None:
    assert user_of({}) is None
    assert user_of({"authenticated": False, "user": ADA}) is None
    assert user_of({"authenticated": "true", "user": ADA}) is None


def test_a_token_for_another_audience_proves_no_user() -> None:
    assert user_of({"authenticated": True, "audiences": ["agents"], "user": ADA}, "agents") is not None
    assert user_of({"authenticated": True, "audiences": ["others"], "user": ADA}, "agents") is None
    assert user_of({"authenticated": True, "user": ADA}, "agents") is None, "the API server ignores audiences"


def test_a_text_that_is_empty_or_too_long_is_no_token() -> None:
    assert reviews.is_reviewable("a" * 16_384)
    assert not any(reviews.is_reviewable(each) for each in ("", "a" * 16_385, None, 7))


def test_a_service_account_is_in_the_groups_of_all_accounts_and_of_its_namespace() -> None:
    account = reviews.account_user("team", "runner")
    assert account.name == "system:serviceaccount:team:runner"
    assert set(account.groups) == {"system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"}
    assert reviews.account_namespace(account.name) == "team"
    assert reviews.account_namespace("ada") == ""


def test_a_right_of_a_user_is_reviewed_with_all_that_is_known_of_the_user() -> None:
    api: Any = Api({"status": {"allowed": True}})
    assert asyncio.run(reviews.has_right(api, User("ada", "7", ("devs",), (("scopes", ("a",)),)), PODS_STATUS))
    assert api.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    about = {"verb": "patch", "resource": "pods", "subresource": "status", "namespace": "team"}
    expected = {"user": "ada", "uid": "7", "groups": ["devs"], "extra": {"scopes": ["a"]}, "resourceAttributes": about}
    assert api.body["spec"] == expected


def test_a_right_to_a_path_is_no_right_to_a_resource() -> None:
    api: Any = Api({"status": {"allowed": False}})
    assert not asyncio.run(reviews.has_own_right(api, AccessRight("get", path="/metrics")))
    assert api.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api.body["spec"] == {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}


def test_a_right_is_described_by_verb_resource_and_namespace() -> None:
    assert str(PODS_STATUS) == "patch pods/status in namespace team"
    assert str(AccessRight("list", "jobs/log", group="batch")) == "list jobs.batch/log in all namespaces"
    assert str(AccessRight("get", path="/metrics")) == "get /metrics"


def test_a_review_of_the_caller_returns_its_user_and_the_time_of_the_server() -> None:
    api: Any = Api({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"userInfo": ADA}})
    review = asyncio.run(reviews.review_self(api))
    assert (review.user.name, review.created) == ("ada", "2026-01-01T00:00:00Z")
    assert api.path == "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def test_no_text_with_other_characters_than_ascii_is_a_token() -> None:
    """One of them, a lone surrogate, cannot even be encoded."""
    assert reviews.is_reviewable("eyJhbGciOi")
    assert not any(reviews.is_reviewable(text) for text in ("", "\ud800", "té", None))
