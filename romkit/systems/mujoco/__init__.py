"""MuJoCo models of the user as systems, and what simulates them."""
