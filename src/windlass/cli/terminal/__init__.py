"""Input from and output to a terminal: tables, formatted values, progress bars, followed output and signals.

Belongs here: everything that does not depend on which verb prints. Does not belong here: any call to a daemon or a
cluster.
"""
