"""The error that every world raises, apart from the port: whoever only reads a folder need not load the core."""


class BackendError(Exception):
    """The world cannot do what was asked for now (disk full, state unreadable); the text is for people."""
