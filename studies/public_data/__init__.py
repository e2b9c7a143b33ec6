"""Public data that another package ships, beside the results of that package."""
