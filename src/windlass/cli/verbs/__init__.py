"""The verbs of `windlass`: a module per family of verbs, each with a function (or a group) of the verb's name.

Belongs here: the options of a verb, its calls to a daemon, a cluster or the files on disk, and what it prints.
Does not belong here: decisions about jobs. `windlass.cli.verb_table` maps verbs to these modules.
"""
