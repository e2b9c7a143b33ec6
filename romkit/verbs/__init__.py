"""The verbs of romkit: fit, simulate, follow, forecast, score, rollout, compare, bootstrap, sample,
save, load.
"""
