"""Names of columns in files of Grace, .xvg, as Gromacs writes them."""

import re
from collections.abc import Sequence

LABEL = re.compile(r'@\s*xaxis\s+label\s+"(.*)"')
"""The line that names the first column."""

LEGEND = re.compile(r'@\s*s([0-9]+)\s+legend\s+"(.*)"')
"""A line that names a set, which is a further column."""


def is_grace(comments: Sequence[str]) -> bool:
    """Whether lines above the numbers name an axis as Grace does."""
    return any(LABEL.match(line.strip()) for line in comments)


def labels_of_grace(comments: Sequence[str]) -> list[str]:
    """Names of the columns: the axis of abscissae, and the legends of the sets in their order."""
    axis, legends = "", {}
    for line in map(str.strip, comments):
        label, legend = LABEL.match(line), LEGEND.match(line)
        if label:
            axis = label[1]
        elif legend:
            legends[int(legend[1])] = legend[2]
    return [axis, *(legends[number] for number in sorted(legends))]
