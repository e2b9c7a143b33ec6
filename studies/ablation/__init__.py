"""Ten new data sets, and what each special candidate of `romkit.learn` gains on them."""
