"""Laws: latent dynamics that are learned from data."""
