"""Speed of training: romkit against geoopt, one seed after the other, and against JAX."""
