"""What romkit does with bad arguments, damaged files, kills and strangers."""
