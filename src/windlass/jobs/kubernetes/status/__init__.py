"""The status of a job's object, in the terms of its kind: conditions, replica counts, times, clean-up."""
