"""Configuration files of a sharing plan: GPU Operator, device plugin, mig-parted, DRA, node labels, Windlass queues.

Belongs here: one module for each program that reads the files; `files.py` lists them all. Does not belong here: any
decision.
"""
