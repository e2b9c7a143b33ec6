"""Docstrings begin with a noun phrase or an imperative, not with a pronoun or a preposition."""

import ast
from collections import Counter
from pathlib import Path

import romkit

ROOT = Path(romkit.__file__).parent
VAGUE = {
    "What",
    "That",
    "Those",
    "It",
    "Of",
    "By",
    "With",
    "Where",
    "So",
    "In",
    "How",
    "From",
    "The same",
}


def test_docstrings_name_their_subject_first():
    found = Counter()
    for path in ROOT.rglob("*.py"):
        nodes = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Expr)
        ]
        for text in (node.value.value for node in nodes if isinstance(node.value, ast.Constant)):
            words = str(text).replace(",", " ").split()[:2]
            found[path.relative_to(ROOT).parts[0]] += not VAGUE.isdisjoint(
                {" ".join(words), *words[:1]}
            )
    assert not +found
