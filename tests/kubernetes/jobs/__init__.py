"""Objects that jobs become, checked by a real API server."""
