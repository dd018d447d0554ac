"""The command line: verbs, words and colours.

Belongs here: reading arguments, calling the API or the state folder's records, and showing what comes back.
Does not belong here: decisions, or anything a program that is not a terminal would want too (that is `server`'s).

`entry` finds the verb and loads its family only: `windlass --help` and completion load none. A verb's family imports
what all its verbs need; rich is imported only where a table goes to a terminal.
"""
