"""Sessions of users: bounded in number and time, and without a readable token."""

from windlass.backends.kubernetes.client.reviews import User, account_user
from windlass.server.operator.dashboard.user_sessions import (
    LIFETIME_MS,
    LINK_LIFETIME_MS,
    MAX_PER_NAMESPACE,
    MAX_PER_USER,
    MAX_SESSIONS,
    UserSessions,
)

NOW = 1_700_000_000_000
ANN, BOB = User("ann"), User("bob")


def test_only_the_cookie_reveals_the_token() -> None:
    sessions = UserSessions()
    cookie = sessions.open(ANN, "secret-token", NOW)
    session = sessions.find(cookie, NOW, may_act=True)
    assert session is not None
    assert (session.user, session.token, session.may_act) == (ANN, "secret-token", True)
    assert "secret-token" not in repr(sessions)
    assert "secret-token" not in repr(session)
    assert cookie not in repr(sessions)
    assert sessions.find("guess", NOW, may_act=True) is None


def test_a_session_ends_by_time_and_by_sign_out() -> None:
    sessions = UserSessions()
    cookie, other = sessions.open(ANN, "a", NOW), sessions.open(ANN, "b", NOW)
    session = sessions.find(cookie, NOW + LIFETIME_MS - 1, may_act=False)
    assert session is not None
    sessions.close(session.key)
    assert sessions.find(cookie, NOW, may_act=False) is None
    assert sessions.find(other, NOW + LIFETIME_MS, may_act=False) is None


def test_one_user_cannot_end_the_sessions_of_others() -> None:
    sessions = UserSessions()
    bobs = sessions.open(BOB, "b", NOW)
    anns = [sessions.open(ANN, "a", NOW) for _ in range(2 * MAX_PER_USER)]
    assert [sessions.find(each, NOW, may_act=False) is not None for each in anns] == (
        [False] * MAX_PER_USER + [True] * MAX_PER_USER
    )
    assert sessions.find(bobs, NOW, may_act=False) is not None


def test_the_oldest_session_ends_beyond_the_limit() -> None:
    sessions = UserSessions()
    first = sessions.open(BOB, "b", NOW)
    for number in range(MAX_SESSIONS):
        sessions.open(User(f"user-{number}"), "t", NOW)
    assert sessions.find(first, NOW, may_act=False) is None


def alive(sessions: UserSessions, cookies: list[str], now: int = NOW) -> int:
    return sum(sessions.find(each, now, may_act=False) is not None for each in cookies)


def test_accounts_of_one_namespace_end_no_session_of_others() -> None:
    sessions = UserSessions()
    bobs = [sessions.open(BOB, "b", NOW), sessions.open(account_user("team-b", "ci"), "c", NOW)]
    others = [sessions.open(User(f"user-{number}"), "t", NOW) for number in range(MAX_SESSIONS - 100)]
    storm = [sessions.open(account_user("team-a", f"bot-{number}"), "t", NOW) for number in range(200)]
    assert (alive(sessions, bobs), alive(sessions, others)) == (2, len(others))
    assert alive(sessions, storm) == MAX_PER_NAMESPACE


def test_many_namespaces_of_accounts_end_their_own_sessions_first() -> None:
    sessions = UserSessions()
    bobs = [sessions.open(BOB, "b", NOW) for _ in range(3)]
    for team in range(18):
        for number in range(MAX_PER_NAMESPACE):
            sessions.open(account_user(f"team-{team}", f"bot-{number}"), "t", NOW)
    assert alive(sessions, bobs) == 3


def test_sessions_whose_time_is_over_displace_none() -> None:
    sessions = UserSessions()
    for number in range(MAX_SESSIONS - 1):
        sessions.issue_link(User(f"user-{number}"), "t", NOW)
    first = sessions.open(BOB, "b", NOW)
    later = NOW + LINK_LIFETIME_MS
    sessions.open(ANN, "a", later)
    assert alive(sessions, [first], later) == 1


def test_a_link_becomes_one_session_and_is_no_cookie_itself() -> None:
    sessions = UserSessions()
    code = sessions.issue_link(ANN, "secret-token", NOW)
    assert sessions.find(code, NOW, may_act=False) is None
    cookie = sessions.redeem(code, NOW)
    assert cookie is not None
    session = sessions.find(cookie, NOW, may_act=False)
    assert session is not None
    assert (session.user, session.token) == (ANN, "secret-token")
    assert [sessions.redeem(each, NOW) for each in (code, cookie, "guess")] == [None] * 3
    assert sessions.redeem(sessions.issue_link(ANN, "t", NOW), NOW + LINK_LIFETIME_MS) is None
