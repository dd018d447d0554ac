"""The error of every backend; apart from the port, so that readers of a state folder need not import the core."""


class BackendError(Exception):
    """The backend cannot do what was requested (disk full, state unreadable); the text is for people."""
