"""Views that packages above the server add to the pages of this machine, such as the workshop.

A package registers an object or a module with an entry point of the group below, under the name of its view. The
server imports it at the first request for the view, and knows nothing else of it.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from windlass.server.dashboard.view import View
from windlass.server.errors import ApiError, ErrorCode

GROUP = "windlass.dashboard_views"


class ViewExtension(Protocol):
    """Reads what a view shows. Both functions read files and run in a thread."""

    def stamp(self) -> str:
        """Returns the state of the records that answers are read from: with the same one, answers are the same."""

    def read(self, name: str) -> Any | None:
        """Returns the content of the view, or of one of its parts by name, as JSON; None if there is no such part."""


def extension_names() -> list[str]:
    """Names of the views that packages add."""
    return sorted(entry_points(group=GROUP).names)


async def find_extension_view(view: str, name: str) -> View | None:
    """Returns a view that a package adds; None if none adds it."""
    extension = await asyncio.to_thread(_load, view)
    if extension is None:
        return None

    async def produce() -> Any:
        found = await asyncio.to_thread(extension.read, name)
        if found is None:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{view} has no part {name[:40]!r}", f"open /{view} for its parts")
        return found

    return View((view, name, await asyncio.to_thread(extension.stamp)), produce)


@cache
def _load(view: str) -> ViewExtension | None:
    found = tuple(entry_points(group=GROUP, name=view))
    return cast("ViewExtension", found[0].load()) if found else None
