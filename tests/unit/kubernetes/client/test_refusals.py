import json

import pytest

from windlass.backends.kubernetes.client.api_errors import (
    ApiError,
    Outcome,
    error_of_reply,
    error_of_status,
    parse_retry_after,
)


def status(code, reason="", **details):
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "why", "details": details}).encode()


def test_the_message_of_a_status_is_kept():
    error = error_of_reply(404, None, status(404, "NotFound"))
    assert str(error) == "why"
    assert error.is_missing


def test_already_exists_and_another_version_are_different_conflicts():
    there, other = (
        error_of_reply(409, None, status(409, "AlreadyExists")),
        error_of_reply(409, None, status(409, "Conflict")),
    )
    assert (there.is_exists, there.is_conflict) == (True, False)
    assert (other.is_exists, other.is_conflict) == (False, True)


def test_a_namespace_that_is_being_deleted_is_recognised():
    error = error_of_reply(403, None, status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]))
    assert error.is_forbidden
    assert error.is_terminating


def test_the_header_gives_the_retry_delay_and_else_the_status():
    assert error_of_reply(429, "2", status(429, retryAfterSeconds=9)).retry_after == 2
    assert error_of_reply(429, None, status(429, retryAfterSeconds=9)).retry_after == 9
    assert error_of_reply(429, None, status(429)).retry_after is None


@pytest.mark.parametrize("header", [None, "", "Fri, 31 Dec 1999 23:59:59 GMT", "nan", "-1", "inf"])
def test_a_header_without_seconds_counts_as_none(header):
    assert parse_retry_after(header) is None


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[]", b'"x"', b'{"kind": "Pod"}', b"\xff"])
def test_a_reply_that_is_no_status_becomes_an_error(body):
    error = error_of_reply(502, None, body)
    assert (error.status, error.reason) == (502, "")
    assert str(error)


@pytest.mark.parametrize("details", [None, [], {"causes": "x"}, {"causes": [1]}, {"retryAfterSeconds": "soon"}])
def test_a_status_with_malformed_details_becomes_an_error(details):
    assert error_of_status({"code": "x", "details": details}).causes == ()


@pytest.mark.parametrize(
    ("code", "after", "expected"),
    [
        (429, None, Outcome.NOT_DONE),
        (503, "1", Outcome.NOT_DONE),
        (503, None, Outcome.UNKNOWN),
        (500, None, Outcome.UNKNOWN),
        (504, None, Outcome.UNKNOWN),
        (403, None, Outcome.REFUSED),
        (409, None, Outcome.REFUSED),
    ],
)
def test_an_error_has_the_outcome_of_its_request(code, after, expected):
    assert error_of_reply(code, after, b"").outcome is expected


@pytest.mark.parametrize(
    ("code", "expected"), [(500, True), (429, True), (403, True), (401, True), (404, False), (409, False), (422, False)]
)
def test_a_request_that_the_server_could_not_judge_may_pass_later(code, expected):
    assert error_of_reply(code, None, b"").may_pass is expected


def test_an_eviction_that_a_budget_forbids_is_not_repeated():
    error = error_of_reply(429, None, status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}]))
    assert error.outcome is Outcome.REFUSED
    assert not error.may_pass


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (401, "Unauthorized", True),
        (403, 'pods is forbidden: User "system:serviceaccount:w:w" cannot create resource "pods"', True),
        (403, 'pods "p" is forbidden: exceeded quota: q, requested: pods=1', False),
        (403, "unable to create new content in namespace team because it is being terminated", False),
        (422, 'User "ann" cannot be a label', False),
    ],
)
def test_a_denial_of_the_user_differs_from_other_refusals(code, message, expected):
    assert ApiError(code, message=message).is_denial is expected
