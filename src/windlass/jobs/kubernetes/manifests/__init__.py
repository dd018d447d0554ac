"""Manifest files and objects as plain data: reading with the path of each error, known fields, writing."""
