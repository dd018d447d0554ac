"""Objects and watch events in the format of the API server."""

from __future__ import annotations

import json

from windlass.backends.kubernetes.client.paging import ObjectList
from windlass.backends.kubernetes.client.watch import Event, read_event


def thing(name: str, version: int, uid: str = "", **more):
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **more}


def event(type: str, object) -> Event:
    return read_event(json.dumps({"type": type, "object": object}).encode())


def listing(version: int, *things) -> ObjectList:
    return ObjectList(str(version), list(things))
