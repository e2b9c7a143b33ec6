"""Peak memory of verbs on data in chunks of dask that are larger than memory may be."""
