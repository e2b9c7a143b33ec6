"""How wrong is a rollout, without its truth?"""
