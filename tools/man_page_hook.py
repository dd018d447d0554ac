"""Hook of the package's build: puts the manual pages of `build/man`, where they exist, into the sdist and the wheel.

`make release` writes them. A build from a clone alone has none: writing them needs the package and all that it imports.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "build/man/man1"


class ManPageHook(BuildHookInterface[Any]):
    """Adds files to what hatchling builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the base class's signature
        """Adds each page: to a wheel for `share/man/man1` of an environment, to an sdist at the same path."""
        for page in sorted(Path(self.root, PAGES).glob("*.1")):
            if self.target_name == "wheel":
                build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"
            else:
                build_data["force_include"][str(page)] = f"{PAGES}/{page.name}"
