"""Access by a kubeconfig: files, context, and credentials that are renewed when they expire.

The library (`config_library`) reads and merges the files and runs exec plugins; this module decides when, and
translates the errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import yaml

from windlass.backends.kubernetes.client.config_library import load_library
from windlass.backends.kubernetes.client.credentials import IdentityCache, empty_settings
from windlass.backends.kubernetes.client.identity import Access, AccessError, Identity

DEFAULT_PATH = "~/.kube/config"
REREAD_INTERVAL_S = 60.0
"""Seconds after which files are read again, since their contents may have been rotated."""
RENEWAL_SHARE, MIN_RENEWAL_INTERVAL_S = 0.8, 5.0
"""A plugin runs again after this share of its credentials' lifetime, and not before this many seconds."""
PLUGIN_TIMEOUT_S = 300.0
"""Seconds that a plugin may take: a person may have to log in."""


def from_kubeconfig(path: str | None = None, context: str | None = None) -> Access:
    """Returns access by the named context, or the current one. Raises AccessError.

    `path` is a file; else $KUBECONFIG, which may name several files, else ~/.kube/config. Runs no plugin.
    """
    files = _files(path)
    with _translated_errors(files):
        login = _Login(files, context)
        server = str(login.cluster["server"]).rstrip("/")
        return Access(
            server=server,
            identify=login.identify,
            namespace=login.namespace,
            context=login.context,
            server_name=login.cluster.safe_get("tls-server-name"),
            proxy=login.cluster.safe_get("proxy-url") or _proxy_of_environment(server),
        )


class _Login:
    """The credentials of one context of some files."""

    def __init__(self, files: str, context: str | None) -> None:
        loader, merged = _load(files, context)
        chosen = loader.current_context
        self.context = str(chosen["name"])
        self.namespace = str(chosen["context"].get("namespace") or "default")
        self.cluster = merged["clusters"].get_with_name(chosen["context"]["cluster"])["cluster"]
        user = merged["users"].get_with_name(chosen["context"].get("user"), safe=True)
        self._plugin = user["user"].safe_get("exec") if user is not None else None
        self._files = files
        self._identities = IdentityCache()
        self._renewing: MutableMapping[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        """By event loop: the lock of its renewals."""
        self._identity: Identity | None = None
        self._due = 0.0
        """Monotonic time at which files are read again."""

    async def identify(self, renew: bool) -> Identity:  # noqa: FBT001 - its only argument
        """See `Access.identify`. Valid credentials stay in use when a renewal fails."""
        if self._identity is not None and not renew and time.monotonic() < self._due:
            return self._identity
        async with self._renewing.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._identity is None or renew or time.monotonic() >= self._due:
                try:
                    self._identity = await self._read()
                except AccessError:
                    if self._identity is None or renew:
                        raise
                    self._due = time.monotonic() + MIN_RENEWAL_INTERVAL_S
            return self._identity

    async def _read(self) -> Identity:
        with _translated_errors(self._files):
            loader, _ = _load(self._files, self.context)
            found = empty_settings()
            try:
                async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                    await loader.load_and_set(found)
                identity = self._identities.identity(found)
            except FileNotFoundError as error:
                raise AccessError(self._missing(error)) from error
            finally:
                load_library().forget_files()
            self._due = time.monotonic() + self._seconds_until_renewal(loader)
            return identity

    def _seconds_until_renewal(self, loader: Any) -> float:
        """Returns the seconds until renewal. Without an expiry, a plugin runs again when credentials fail."""
        expiry: datetime | None = getattr(loader, "exec_plugin_expiry", None)
        if expiry is None:
            return REREAD_INTERVAL_S if self._plugin is None else math.inf
        return max(MIN_RENEWAL_INTERVAL_S, RENEWAL_SHARE * (expiry - datetime.now(UTC)).total_seconds())

    def _missing(self, error: FileNotFoundError) -> str:
        if self._plugin is None or error.filename != self._plugin.get("command"):
            return f"{self._files} names a file that is not there: {error.filename}"
        hint = _line(self._plugin.get("installHint") or "install it")
        return f"{self._files} names the plugin {error.filename}, which is not there: {hint}"


def _proxy_of_environment(server: str) -> str | None:
    """Returns the proxy as kubectl does: $HTTPS_PROXY and $HTTP_PROXY, except for $NO_PROXY and local servers."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1" or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def _files(path: str | None) -> str:
    """Returns the files to read in the format of $KUBECONFIG; at least one of them exists."""
    files = path or os.environ.get("KUBECONFIG") or DEFAULT_PATH
    if any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        return files
    raise AccessError(f"there is no kubeconfig: {files} does not exist; name one with KUBECONFIG=FILE")


def _load(files: str, context: str | None) -> tuple[Any, Any]:
    """Returns the library's loader and the merged files; the first definition of a name wins."""
    merger = load_library().kubeconfig.KubeConfigMerger(files)
    current = next(
        (file["current-context"] for file in merger.config_files.values() if file.get("current-context")), None
    )
    contexts = [each["name"] for each in merger.config["contexts"].value]
    if not (context or current):
        raise AccessError(f"{files} has no current context: name one of {', '.join(contexts) or 'none that it has'}")
    if (context or current) not in contexts:
        raise AccessError(f"{files} has no context {context or current}; it has {', '.join(contexts) or 'none'}")
    loader = load_library().kubeconfig.KubeConfigLoader(merger.config, context or current, config_base_path=None)
    return loader, merger.config


@contextlib.contextmanager
def _translated_errors(files: str) -> Iterator[None]:
    """Turns the library's exceptions (malformed file, missing certificate, failed plugin) into one sentence."""
    try:
        yield
    except TimeoutError as error:
        raise AccessError(f"the plugin that {files} names took longer than {PLUGIN_TIMEOUT_S:.0f} s") from error
    except (load_library().kubeconfig.ConfigException, OSError) as error:
        raise AccessError(f"{files} gives no access: {_line(error)}") from error
    except yaml.YAMLError as error:
        raise AccessError(f"{files} is no YAML: {_line(error)}") from error
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError) as error:
        rule = "it must have clusters, users and contexts, as `kubectl config view` shows them"
        raise AccessError(f"{files} is no kubeconfig: {rule}") from error


def _line(text: object) -> str:
    return " ".join(str(text).split())
