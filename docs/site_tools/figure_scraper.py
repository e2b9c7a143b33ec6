"""Scraper of sphinx-gallery: finds figures among the values of an example, since pyplot does not know romkit's."""

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_SHOWN = "__shown_figures__"


def romkit_figures(block: tuple, block_vars: dict, gallery_conf: dict) -> str:
    """Save every `Figure` that the block has given a name, and return the text that shows them."""
    names = block_vars["example_globals"]
    shown = names.setdefault(_SHOWN, set())
    paths, titles = [], []
    for value in list(names.values()):
        if isinstance(value, Figure) and id(value) not in shown:
            shown.add(id(value))
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=120)
            paths.append(path)
            titles.append(
                value.get_suptitle() or value.axes[0].get_title() or value.axes[0].get_ylabel()
            )
    return figure_rst(paths, gallery_conf["src_dir"], ", ".join(filter(None, titles)))
