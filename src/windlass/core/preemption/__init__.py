"""Preemption, reclaim and elastic growth: which running gangs are stopped, shrunk or grown for others.

Belongs here: the search for victims and its proof. Does not belong here: the order of waiting gangs.
"""
