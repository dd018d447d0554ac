"""Diagnosis of jobs: evidence of each backend, the process that diagnoses, and the verdicts of failed attempts.

Belongs here: what a job leaves behind as evidence. Does not belong here: rules and their evaluation (`diagnose`).
"""
