"""What is installed into a cluster, tested on a real API server."""
