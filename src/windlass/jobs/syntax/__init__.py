"""Syntax: values, fields, YAML trees and one-line settings, and the errors in them. Says nothing of jobs."""
