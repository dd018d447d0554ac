"""Checks of a cluster over its objects: from nodes and device plugins to the scheduler, queues and stuck pods."""
