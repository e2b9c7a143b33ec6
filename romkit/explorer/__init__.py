"""Local page on which a reduced model answers to sliders of its context.

Needs the extra `explore`.
"""

from romkit.explorer.exploration import Exploration, Orbit, View
from romkit.explorer.page import explore

__all__ = ["Exploration", "Orbit", "View", "explore"]
