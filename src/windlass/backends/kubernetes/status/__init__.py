"""Status writing: job state, conditions, events and pending reasons, written through rate limits."""
