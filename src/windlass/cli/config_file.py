"""The config file of the command line: defaults for --on, --namespace, --image and --ship. Windlass never writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """The fields of the file, all strings; "" means not set."""

    on: str = ""
    """Default of --on: local, kubernetes, or a context of the kubeconfig."""
    namespace: str = ""
    """Default namespace on Kubernetes; without it, that of the context."""
    image: str = ""
    """Image on Kubernetes for jobs that name none."""
    ship: str = ""
    """Folder to ship to Kubernetes with a job that names no image, or "no"."""
    operator: str = ""
    """NAMESPACE/LEASE or URL of an operator outside of the cluster; `$WINDLASS_OPERATOR` takes precedence."""


def config_path() -> Path:
    """Returns `$WINDLASS_CONFIG`, else `windlass/config.yaml` in `$XDG_CONFIG_HOME` or `~/.config`."""
    if given := os.environ.get("WINDLASS_CONFIG"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "windlass" / "config.yaml"


def configured() -> Config:
    """Returns the settings of the file; empty ones without a file. Raises InputError with the line of each mistake."""
    path = config_path()
    return _read(path) if path.is_file() else Config()


@cache
def _read(path: Path) -> Config:
    from windlass.jobs.errors import InputError  # noqa: PLC0415
    from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415
    from windlass.jobs.syntax.text import read_text  # noqa: PLC0415
    from windlass.jobs.syntax.yaml_tree import MapNode, Scalar, compose  # noqa: PLC0415 - loads the YAML parser

    text = read_text(str(path))
    documents = compose(text)
    if not documents:
        return Config()
    node, known = documents[0], [field.name for field in fields(Config)]
    if not isinstance(node, MapNode):
        raise InputError([text.problem(f"expects fields: {', '.join(known)}", node.place)])
    values, problems = {}, []
    for key, value in node.entries:
        if key.text not in known:
            problems.append(text.problem(f"unknown field {key.text[:40]!r}{did_you_mean(key.text, known)}", key.place))
        elif not isinstance(value, Scalar):
            problems.append(text.problem(f"{key.text} expects a text", value.place))
        else:
            values[key.text] = value.text
    if problems:
        raise InputError(problems)
    return Config(**values)
