"""The site: `make docs`. Pages are Markdown, tutorials and gallery are scripts that run when the site is built."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "site_tools")]

from romkit.core.version import VERSION  # noqa: E402, from this checkout

project, author, copyright = "romkit", "the romkit authors", "2026, the romkit authors"
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "sphinxcontrib.bibtex",
    "reference_pages",
    "measured",
]
exclude_patterns = [
    "_build",
    "site_tools",
    "checks",
    "paper",
    "tutorials/*",
    "gallery/**",
]  # the scripts, not their pages
default_role = "py:obj"
suppress_warnings = ["ref.python"]  # `rhs` may be that of any system
bibtex_bibfiles = ["references.bib"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False  # there are none, and to look for them takes seconds
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

copybutton_prompt_text, copybutton_prompt_is_regexp = (
    r">>> |\.\.\. ",
    True,
)  # examples are copied without

html_theme = "pydata_sphinx_theme"
html_title = "romkit"
html_static_path = ["static"]
html_extra_path = ["llms.txt"]
html_css_files = ["romkit.css"]
html_show_search_summary = (
    False  # would be fetched, which browsers refuse to a page that was opened from a disk
)
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": ["tutorials", "gallery"],
    "gallery_dirs": ["auto_tutorials", "auto_gallery"],
    "filename_pattern": r"\.py$",
    "image_scrapers": ("figure_scraper.romkit_figures",),
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 5,
    "write_computation_times": False,  # its tables would load scripts from the net
}
