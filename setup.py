"""Metadata that pyproject.toml cannot compute: README without links to files, which a package index
does not have.
"""

import re
from pathlib import Path

from setuptools import setup

text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", "", text)
text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
setup(long_description=text, long_description_content_type="text/markdown")
