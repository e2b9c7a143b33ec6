"""The one room for speed: what batches, compiles, and chooses devices and threads."""
