"""Six textbook systems with noise: which fits find exactly the terms that are true."""
