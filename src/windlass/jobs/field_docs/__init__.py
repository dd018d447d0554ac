"""Documents made from the tables of fields: help on one field, the reference page, the JSON Schema."""
