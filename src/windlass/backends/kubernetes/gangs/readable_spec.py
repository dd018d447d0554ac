"""Specs of a job that are stored in its status, because the object's own spec is another one.

A gang continues unchanged after an edit that cannot be read (`FIELD`), and one that holds nodes after an edit that
takes from others (`STARTED_FIELD`). The next leader finds its spec here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

FIELD = "lastReadable"
"""Below `status`: one text with the spec, and the labels and annotations, which a reader uses as well."""
STARTED_FIELD = "startedSpec"
"""Below `status`: the same for the spec with which the gang was started, while its owner asks for another."""
_METADATA = ("labels", "annotations")


def text_of(parsed: ParsedJob, metadata: Mapping[str, Any]) -> str:
    """Returns the text to store. `metadata`: the object's metadata when the spec was last readable."""
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    return msgspec.json.encode({"metadata": kept, "spec": parsed.manifest["spec"]}).decode()


def stored_text(manifest: Mapping[str, Any], field: str = FIELD) -> str:
    """Returns the text that an object's status contains, or ""."""
    found = (manifest.get("status") or {}).get(field)
    return found if isinstance(found, str) else ""


def read(manifest: Mapping[str, Any], text: str, settings: Settings) -> ParsedJob | None:
    """Returns the job of a stored text for the present object; None if the text is empty or cannot be read."""
    try:
        kept = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        metadata, spec = kept["metadata"], kept["spec"]
    except (msgspec.DecodeError, KeyError):
        return None
    about = {name: value for name, value in manifest["metadata"].items() if name not in _METADATA}
    parsed = registry.read({**manifest, "metadata": {**about, **metadata}, "spec": spec}, settings)
    if not isinstance(parsed, ParsedJob):
        return None
    return replace(parsed, manifest={**manifest, "spec": parsed.manifest["spec"]})
