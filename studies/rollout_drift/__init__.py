"""How long reduced models stay true: see the README."""
