"""One attempt at one request, without a server."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest

from windlass.backends.kubernetes.client.api_errors import Outcome, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.identity import constant_access


def test_a_request_during_the_close_is_refused_as_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        during_close: list[asyncio.Task[bytes]] = []
        close = aiohttp.ClientSession.close

        async def close_slowly(session: aiohttp.ClientSession) -> None:
            await close(session)
            during_close.append(asyncio.create_task(connection.request("GET", "/version")))
            await asyncio.wait(during_close)

        monkeypatch.setattr(aiohttp.ClientSession, "close", close_slowly)
        async with Connection(constant_access("http://api.invalid")) as connection:
            pass
        with pytest.raises(Unreachable) as refused:
            during_close[0].result()
        assert refused.value.outcome is Outcome.REFUSED

    asyncio.run(scenario())


def test_a_failed_connection_does_not_show_the_settings_of_tls() -> None:
    async def scenario() -> str:
        async with Connection(constant_access("https://127.0.0.1:1", tls=ssl.create_default_context())) as connection:
            with pytest.raises(Unreachable) as failed:
                await connection.request("GET", "/version", within=0.1)
        return str(failed.value)

    text = asyncio.run(scenario())
    assert "127.0.0.1:1" in text
    assert "ssl" not in text
