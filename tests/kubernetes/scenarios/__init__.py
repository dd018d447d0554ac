"""The golden scripts of the core, run through a real API server."""
