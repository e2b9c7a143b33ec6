"""Which optimizer reaches the paper's accuracy soonest: contestants at equal CPU time on both
systems.
"""
