"""Manifest files: the objects that they become, fields that no kind has, job files as objects."""
