"""How long reduced models stay true, by projection, training and latent dynamics: `romkit study
rollout_drift`.
"""
