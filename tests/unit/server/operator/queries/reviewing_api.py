"""An API server that only reviews tokens and rights, each in some seconds of virtual time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any


class ReviewingApi:
    """Accepts tokens `good-NAME` as user NAME, and gives each user the rights in `allowed` namespaces.

    `asked`: number of reviews by kind; `most`: maximum number of reviews at once.
    """

    def __init__(self, delay: float = 1.0, allowed: frozenset[str] = frozenset()) -> None:
        self.delay, self.allowed = delay, allowed
        self.asked: Counter[str] = Counter()
        self.under_way, self.most = 0, 0

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], within: float | None) -> bytes:
        assert within is not None, "a review has a deadline"
        self.asked[body["kind"]] += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.under_way -= 1
        answer = self._user(body["spec"]) if body["kind"] == "TokenReview" else self._right(body["spec"])
        return json.dumps({"status": answer}).encode()

    def _user(self, spec: dict[str, Any]) -> dict[str, Any]:
        kind, _, name = spec["token"].partition("-")
        return {"authenticated": kind == "good", "user": {"username": name}}

    def _right(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": spec["resourceAttributes"].get("namespace") in self.allowed}
