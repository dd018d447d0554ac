"""Random ends of object names that are generated here, in the form in which the API server generates them.

A name that the API server generates would be another one in each repeated request.
"""

from __future__ import annotations

import random

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of Kubernetes: without vowels, so that no words result."""
_LENGTH = 5


def name_suffix() -> str:
    """Returns a random end of a name."""
    return "".join(random.SystemRandom().choices(_LETTERS, k=_LENGTH))
