"""Syntax of values, fields, YAML trees and settings on one line. Contains nothing about jobs."""
