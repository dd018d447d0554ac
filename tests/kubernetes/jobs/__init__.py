"""What jobs become, asked of a real API server."""
