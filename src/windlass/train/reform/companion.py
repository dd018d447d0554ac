"""What goes along when a rank goes on with others."""

from __future__ import annotations

from typing import Protocol


class Companion(Protocol):
    """Something of a run that has process groups of its own."""

    def let_go(self) -> None:
        """Its ranks are gone, and its connections cut. Nobody is asked."""

    def join(self) -> None:
        """Make groups of all ranks anew: the ones that a rank makes which has just been started, in the same order."""

    def met(self) -> None:
        """All ranks have the same state now, those too that have just been started. A collective."""
