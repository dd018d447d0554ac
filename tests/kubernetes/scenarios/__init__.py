"""The golden scripts of the core, through a real API server."""
