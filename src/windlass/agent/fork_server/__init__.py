"""The process that has imported torch once and forks ranks from itself: what runs inside of it."""
