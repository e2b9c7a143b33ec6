"""Whether an exact projection is as accurate as one that is not: `romkit study exactness`."""
