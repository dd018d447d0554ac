"""Pods made from templates: labels, requests, placement constraints, code archives, agents."""
