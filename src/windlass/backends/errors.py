"""The error that every backend raises.

Separate from `backends.port`, so that code which only reads a state folder does not import the core.
"""


class BackendError(Exception):
    """The backend cannot do what was requested (disk full, state unreadable); the text is shown to the user."""
