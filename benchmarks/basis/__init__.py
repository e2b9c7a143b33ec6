"""A basis of more snapshots than memory holds, on a cluster of dask, against rivals of the same
data.
"""
