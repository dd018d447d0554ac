"""Documents made from the tables of fields: help on one field, the reference page, the JSON Schema.

The tables are in `jobs.description` and `jobs.cluster`; `windlass explain` and `windlass schema` print these documents.
"""
