"""Facts, escaped, and a curve: the HTML of projections, laws and bases in notebooks."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import romkit
from romkit.integrators import SINDy


def shown(thing):
    """The HTML as a tree, which it has to be."""
    return ElementTree.fromstring(thing._repr_html_().replace("<br>", "<br/>"))


def points(tree):
    return [line.get("points").split() for line in tree.iter("polyline")]


@pytest.fixture(scope="module")
def stack(lorenz_data):
    return romkit.fit("ncae", lorenz_data, seeds=[3, 5], epochs=3, latent_dim=2, engine="torch")


def test_a_projection_shows_sizes_training_and_losses(stack):
    one = shown(romkit.projections.unstack(stack)[1])
    text = " ".join(one.itertext())
    assert re.search(r"F 3\.1\d* \.\.\. 3\.1\d*", text)
    assert "2 latent, 36 state components" in text
    assert [len(line) for line in points(one)] == [3]


def test_a_stack_shows_all_seeds(stack):
    tree = shown(stack)
    assert "3, 5" in " ".join(tree.itertext())
    assert [len(line) for line in points(tree)] == [3, 3]


def test_a_law_shows_its_equations(stack, lorenz_data):
    projection = romkit.projections.unstack(stack)[0]
    with pytest.warns(romkit.errors.FitWarning):
        law = SINDy(degree=1).fit(projection, lorenz_data)
    assert law.details()[0] in "".join(shown(law).itertext())


def test_a_basis_shows_its_singular_values():
    x = np.random.default_rng(0).normal(size=(30, 12)) * np.geomspace(1, 1e-4, 12)
    tree = shown(romkit.basis(x, rank=5))
    (line,) = points(tree)
    heights = [float(point.split(",")[1]) for point in line]
    assert heights == sorted(heights)
    assert shown(romkit.bases.Basis(np.eye(4)[:, :2])).find(".//svg") is None


def test_text_of_files_is_no_markup(stack):
    projection = romkit.projections.unstack(stack)[0]
    projection.report["data"] = {"system": "<script>alert(1)</script>"}
    assert "<script>" not in projection._repr_html_()


def test_projections_and_operators_print_in_a_line():
    ncae = romkit.load("ncae-lorenz96")
    assert repr(ncae).startswith("NcAE(2 latent of 36 components; context F; layers=[2, 18, 36]")
    assert repr(romkit.projections.stack([ncae, ncae])).endswith("; 2 seeds)")
    assert repr(ncae(F=3.15)) == "Operator(2 latent of 36 components; F=3.15)"
    assert repr(ncae(F=[3.15, 3.16])) == "Operator(2 latent of 36 components; 2 contexts of F)"
