"""The user of the command line."""

from __future__ import annotations

import os
import pwd


def current_user() -> str:
    """Returns the name of the user who submits."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
