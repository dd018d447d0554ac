"""The text of the field `network`: a profile, and parameters that replace those of the cluster and of the profile.

`roce-sriov,networks=rail0+rail1,interface=net1`. A plus separates the items of a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from windlass.hardware.network.profiles import AUTO, NAMES

_RESOURCE = r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?/[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
_NETWORK = r"([a-z0-9][-a-z0-9.]{0,62}/)?[a-z0-9][-a-z0-9.]{0,62}(@[a-z0-9]{1,15})?"
_VERSION = r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,4})?"
_PATTERNS = {
    "resource": _RESOURCE,
    "count": r"[1-9][0-9]{0,3}",
    "networks": _NETWORK,
    "interface": r"[A-Za-z0-9][-\w.]{0,14}",
    "hca": r"[A-Za-z0-9][-\w]{0,30}(:[0-9]{1,2})?",
    "hugepages": r"0|[1-9][0-9]{0,6}(Mi|Gi)",
    "nccl": _VERSION,
    "plugin": _VERSION,
}
_LISTS = ("resource", "networks", "interface", "hca")
_EXAMPLES = {
    "resource": "vpc.amazonaws.com/efa",
    "count": "32",
    "networks": "rail0+rail1",
    "interface": "net1",
    "hca": "mlx5_0+mlx5_1",
    "hugepages": "5120Mi or 0",
    "nccl": "2.20",
    "plugin": "1.6",
}
MAX_CHARS = 2000
PATTERN = rf"^({'|'.join(NAMES)})(,({'|'.join(_PATTERNS)})=[-A-Za-z0-9_./@:+]+)*$"
"""Regular expression of the text, without the rules of each parameter."""


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """A profile and its parameters; an empty parameter is not given.

    `count`: devices of each resource. `interface`, `hca`: names in the pod or on the machine. `nccl`, `plugin`:
    versions of NCCL and of aws-ofi-nccl in the image, for variables that only old ones need.
    """

    profile: str
    resource: tuple[str, ...] = ()
    count: str = ""
    networks: tuple[str, ...] = ()
    interface: tuple[str, ...] = ()
    hca: tuple[str, ...] = ()
    hugepages: str = ""
    nccl: str = ""
    plugin: str = ""

    def over(self, below: NetworkRequest | None, profile: str = "") -> NetworkRequest:
        """Returns this request with the parameters of another one where it gives none, and perhaps another profile."""
        given = {name: value for name in _PATTERNS if (value := getattr(self, name))}
        return replace(below or NetworkRequest(""), profile=profile or self.profile, **given)


def parse_network(text: str) -> NetworkRequest:
    """Reads the text of the field. Raises ValueError with a text that follows the field's name."""
    profile, *words = text[: MAX_CHARS + 1].split(",")
    if len(text) > MAX_CHARS:
        raise ValueError(f"expects at most {MAX_CHARS} characters")
    if profile not in NAMES:
        near = "".join(f"; did you mean {name}?" for name in get_close_matches(profile[:40], NAMES, 1))
        raise ValueError(f"expects {', '.join(NAMES)}, not {profile[:40]!r}{near}")
    values: dict[str, str | tuple[str, ...]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _PATTERNS or not equals:
            raise ValueError(f"has no parameter {word[:40]!r}; there are {', '.join(f'{each}=' for each in _PATTERNS)}")
        if name in values:
            raise ValueError(f"has {name} twice")
        values[name] = _value(name, value)
    return NetworkRequest(profile, **values)  # type: ignore[arg-type]


def parse_defaults(text: str) -> dict[str, NetworkRequest]:
    """Reads requests with semicolons between them, by profile. Raises ValueError as `parse_network`."""
    found: dict[str, NetworkRequest] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        request = parse_network(part)
        if request.profile == AUTO or request.profile in found:
            raise ValueError(f"expects each profile once, and not {AUTO}: {request.profile}")
        found[request.profile] = request
    return found


def _value(name: str, text: str) -> str | tuple[str, ...]:
    items = text.split("+") if name in _LISTS else [text]
    for item in items:
        if not re.fullmatch(_PATTERNS[name], item, re.ASCII):
            raise ValueError(f"expects {name}= with a value such as {_EXAMPLES[name]}, not {item[:40]!r}")
    return tuple(items) if name in _LISTS else text


def format_network(request: NetworkRequest) -> str:
    """Writes a request as the text from which `parse_network` reads it."""
    values = {name: getattr(request, name) for name in _PATTERNS}
    words = [f"{name}={'+'.join(value) if name in _LISTS else value}" for name, value in values.items() if value]
    return ",".join([request.profile, *words])


def version_of(text: str) -> tuple[int, int]:
    """Returns major and minor version of a text that has passed `parse_network`."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)
