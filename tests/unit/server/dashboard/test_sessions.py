"""Sessions of browsers: links that work once, cookies that end, and bounded tables."""

from windlass.server.dashboard.sessions import (
    LINK_LIFETIME_MS,
    MAX_LINKS,
    MAX_SESSIONS,
    SESSION_LIFETIME_MS,
    Sessions,
)

NOW = 1_700_000_000_000


def test_a_link_works_once() -> None:
    sessions = Sessions()
    token = sessions.issue_link(NOW, may_act=False)
    assert sessions.redeem(token, NOW) is not None
    assert sessions.redeem(token, NOW) is None


def test_a_link_is_too_old_after_its_lifetime() -> None:
    sessions = Sessions()
    token = sessions.issue_link(NOW, may_act=False)
    assert sessions.redeem(token, NOW + LINK_LIFETIME_MS) is None


def test_a_session_keeps_what_its_link_allows_and_ends() -> None:
    sessions = Sessions()
    cookie = sessions.redeem(sessions.issue_link(NOW, may_act=True), NOW)
    assert cookie is not None
    found = sessions.find(cookie, NOW + SESSION_LIFETIME_MS - 1)
    assert found is not None
    assert found.may_act
    assert sessions.find(cookie, NOW + SESSION_LIFETIME_MS) is None


def test_guessed_tokens_are_nothing() -> None:
    sessions = Sessions()
    assert sessions.redeem("", NOW) is None
    assert sessions.find("", NOW) is None


def test_the_oldest_links_and_sessions_end_beyond_the_limits() -> None:
    sessions = Sessions()
    first_link = sessions.issue_link(NOW, may_act=False)
    for _ in range(MAX_LINKS):
        sessions.issue_link(NOW, may_act=False)
    assert sessions.redeem(first_link, NOW) is None
    cookies = [sessions.redeem(sessions.issue_link(NOW, may_act=False), NOW) for _ in range(MAX_SESSIONS + 1)]
    assert sessions.find(str(cookies[0]), NOW) is None
    assert sessions.find(str(cookies[-1]), NOW) is not None


def test_no_token_is_kept_as_it_is() -> None:
    sessions = Sessions()
    token = sessions.issue_link(NOW, may_act=False)
    cookie = sessions.redeem(sessions.issue_link(NOW, may_act=False), NOW)
    assert token not in repr(sessions)
    assert str(cookie) not in repr(sessions)
