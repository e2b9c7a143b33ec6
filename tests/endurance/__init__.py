"""What takes longer than a test: kills at random moments, an hour of everything in one process."""
