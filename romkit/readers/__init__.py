"""Readers: files and habits of others, in the schema of `romkit.data`."""
