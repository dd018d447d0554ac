"""One of our jobs as the backend knows it: its object, its stored state, and its run. Data only, no requests."""
