"""The config file: what a person need not say each time. Written by hand; nothing here writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """Fields of the file, all of them texts; "" is "not said"."""

    on: str = ""
    """local, kubernetes, or a context of the kubeconfig."""
    namespace: str = ""
    """On Kubernetes; else the context's."""
    image: str = ""
    """On Kubernetes: what jobs run in that name no image."""
    ship: str = ""
    """On Kubernetes: the folder that goes along with a job that names no image, or no."""
    operator: str = ""
    """On Kubernetes: NAMESPACE/LEASE of the operator, or the URL at which it answers; `$WINDLASS_OPERATOR` wins."""


def config_path() -> Path:
    """`$WINDLASS_CONFIG`, else `$XDG_CONFIG_HOME/windlass/config.yaml`, else `~/.config/windlass/config.yaml`."""
    if given := os.environ.get("WINDLASS_CONFIG"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "windlass" / "config.yaml"


def configured() -> Config:
    """What the file says; nothing if there is none. Raises JobError with the line of each mistake."""
    path = config_path()
    return _read(path) if path.is_file() else Config()


@cache
def _read(path: Path) -> Config:
    from windlass.jobs.errors import JobError  # noqa: PLC0415
    from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415
    from windlass.jobs.syntax.text import read_text  # noqa: PLC0415
    from windlass.jobs.syntax.yaml_tree import MapNode, Scalar, compose  # noqa: PLC0415 - loads the YAML parser

    text = read_text(str(path))
    documents = compose(text)
    if not documents:
        return Config()
    node, known = documents[0], [field.name for field in fields(Config)]
    if not isinstance(node, MapNode):
        raise JobError([text.problem(f"expects fields: {', '.join(known)}", node.place)])
    values, problems = {}, []
    for key, value in node.entries:
        if key.text not in known:
            problems.append(text.problem(f"unknown field {key.text[:40]!r}{did_you_mean(key.text, known)}", key.place))
        elif not isinstance(value, Scalar):
            problems.append(text.problem(f"{key.text} expects a text", value.place))
        else:
            values[key.text] = value.text
    if problems:
        raise JobError(problems)
    return Config(**values)
