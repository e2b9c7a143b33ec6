"""Selection of one candidate out of several by forecasts of runs that are left out."""

from romkit.select.policy import Policy
from romkit.select.search import Candidate, Trial, preferred, search

__all__ = ["Candidate", "Policy", "Trial", "preferred", "search"]
