"""Loads the configuration of kubernetes_asyncio without its client.

Loading that package loads a class for each type of the API: 2.5 s and 70 MB here, while its configuration takes 0.02 s
and 2 MB. So two empty packages replace the unwanted ones during the import and are removed afterwards: a later import
of kubernetes_asyncio gets the whole package.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from windlass.backends.kubernetes.client.identity import AccessError

_WHOLE = "kubernetes_asyncio"


class Library(NamedTuple):
    """Two modules of the library. Its log is silenced: every failure is raised as well."""

    kubeconfig: Any
    in_cluster: Any

    def forget_files(self) -> None:
        """Removes the files with certificates and keys, which the library would keep until the process ends."""
        self.kubeconfig._cleanup_temp_files()  # noqa: SLF001 - what it does at the end itself; a test holds it to that


@cache
def load_library() -> Library:
    """Loads the library. Raises AccessError if it is not installed."""
    spec = find_spec(_WHOLE)
    if spec is None or spec.origin is None:
        fix = "pip install 'windlass-train[kubernetes]'"
        raise AccessError(f"kubernetes_asyncio, which reads kubeconfigs, is missing: {fix}")
    before = {name: module for name, module in sys.modules.items() if _belongs(name)}
    if not before:
        _insert_placeholders(Path(spec.origin).parent)
    try:
        kubeconfig = import_module(f"{_WHOLE}.config.kube_config")
        in_cluster = import_module(f"{_WHOLE}.config.incluster_config")
    finally:
        if not before:
            for name in [name for name in sys.modules if _belongs(name)]:
                del sys.modules[name]
    kubeconfig.logger.disabled = True
    return Library(kubeconfig, in_cluster)


def _insert_placeholders(folder: Path) -> None:
    whole, client = ModuleType(_WHOLE), ModuleType(f"{_WHOLE}.client")
    whole.__path__, client.__path__ = [str(folder)], [str(folder / "client")]
    for unused in ("ApiClient", "Configuration"):
        setattr(client, unused, object)
    sys.modules |= {_WHOLE: whole, f"{_WHOLE}.client": client}


def _belongs(name: str) -> bool:
    return name == _WHOLE or name.startswith(f"{_WHOLE}.")
