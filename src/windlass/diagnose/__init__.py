"""Diagnosis: `lint` checks files before they run; the log engine finds causes of failures."""
