"""Reservations of nodes for gangs that wait: the release forecast, the reservation profile, the starvation guard.

Belongs here: free capacity over time. Does not belong here: stopping a running gang.
"""
