"""Tests of the installation on a real API server."""
