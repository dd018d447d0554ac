"""YAML documents with a comment at the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, as people write ConfigMaps."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def as_yaml(value: Any) -> str:
    """Returns one document."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def as_documents(comment: str, values: Sequence[Any]) -> str:
    """Returns documents below a comment of one or more lines."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + "---\n".join(as_yaml(value) for value in values)
