"""Merges parts of pod templates over a whole one, as `kubectl patch` does: items of lists are matched by name.

Source: the patchMergeKey tags of k8s.io/api/core/v1. Not taken over: tolerations add up, because all of them hold;
`$patch` and `$setElementOrder` have no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Keys by which items of lists are matched; other lists are replaced as a whole."""
_ADDED_UP = ("tolerations",)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with another merged over it; null removes a value. Neither is changed."""
    result = dict(below)
    for name, value in above.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _value(name, result.get(name), value)
    return result


def _value(name: str, below: Any, above: Any) -> Any:
    if isinstance(above, dict):
        return merge(below if isinstance(below, dict) else {}, above)
    if isinstance(above, list) and isinstance(below, list):
        if name in _ADDED_UP:
            return [*below, *above]
        if name in _KEYS:
            return _by_key(_KEYS[name], below, above)
    return above


def _by_key(key: str, below: list[Any], above: list[Any]) -> list[Any]:
    """The items of both lists; common ones are merged in their place in the lower list."""
    result = list(below)
    places = {item[key]: at for at, item in enumerate(below) if _keyed(item, key)}
    for item in above:
        if _keyed(item, key) and item[key] in places:
            at = places[item[key]]
            result[at] = merge(result[at], item)
        else:
            result.append(item)
    return result


def _keyed(item: Any, key: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(key), str | int)
