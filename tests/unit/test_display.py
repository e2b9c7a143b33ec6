"""Facts, escaped, and a curve: the HTML of projections, laws and bases in notebooks."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import romkit
from romkit.laws import SINDy


def shown(thing):
    """The HTML as a tree, which it has to be."""
    return ElementTree.fromstring(thing._repr_html_().replace("<br>", "<br/>"))


def points(tree):
    return [line.get("points").split() for line in tree.iter("polyline")]


def test_projections_and_laws_show_sizes_losses_and_equations(lorenz_data):
    stack = romkit.fit("ncae", lorenz_data, seeds=[3, 5], epochs=3, latent_dim=2, engine="torch")
    projection = romkit.projections.unstack(stack)[1]
    one, all_seeds = shown(projection), shown(stack)
    text = " ".join(one.itertext())
    assert re.search(r"F 3\.1\d* \.\.\. 3\.1\d*", text)
    assert "2 latent, 36 state components" in text
    assert "3, 5" in " ".join(all_seeds.itertext())
    assert [[len(line) for line in points(tree)] for tree in (one, all_seeds)] == [[3], [3, 3]]
    with pytest.warns(romkit.errors.FitWarning):
        law = SINDy(degree=1, refine=False).fit(projection, lorenz_data)
    assert law.details()[0] in "".join(shown(law).itertext())
    projection.report["data"] = {"system": "<script>alert(1)</script>"}
    assert "<script>" not in projection._repr_html_()


def test_a_basis_shows_its_singular_values():
    x = np.random.default_rng(0).normal(size=(30, 12)) * np.geomspace(1, 1e-4, 12)
    tree = shown(romkit.basis(x, rank=5))
    (line,) = points(tree)
    heights = [float(point.split(",")[1]) for point in line]
    assert heights == sorted(heights)
    assert shown(romkit.bases.Basis(np.eye(4)[:, :2])).find(".//svg") is None


def test_projections_and_operators_print_in_a_line():
    ncae = romkit.load("ncae-lorenz96")
    assert repr(ncae).startswith("NcAE(2 latent of 36 components; context F; layers=[2, 18, 36]")
    assert repr(romkit.projections.stack([ncae, ncae])).endswith("; 2 seeds)")
    assert repr(ncae(F=3.15)) == "Operator(2 latent of 36 components; F=3.15)"
    assert repr(ncae(F=[3.15, 3.16])) == "Operator(2 latent of 36 components; 2 contexts of F)"


def test_systems_show_their_context():
    text = " ".join(shown(romkit.systems.Lorenz96()).itertext())
    assert "F 3.133 ... 3.193" in text
    assert "36 components" in text


def test_learned_models_show_number_baselines_and_picture():
    t, speed = np.linspace(0, 6, 61), np.linspace(1.0, 2.0, 5)
    phase = speed[:, None, None] * t[:, None] - np.arange(4)
    runs = romkit.data.from_arrays(np.sin(phase), t, context={"speed": speed})
    model = romkit.learn(runs, latent_dim=2)
    tree = shown(model)
    text = " ".join(tree.itertext())
    for error in model.mean_errors.values():
        assert f"{error:.2g}" in text
    assert tree.find(".//img").get("src").startswith("data:image/png;base64,")
    assert [line.split()[0] for line in repr(model).splitlines()][:2] == ["learned", "error"]


def test_long_equations_print_their_largest_terms(lorenz_data):
    projection = romkit.fit("pod", lorenz_data, latent_dim=3)
    law = romkit.laws.SINDy(degree=4, threshold=0.0).fit(projection, lorenz_data)
    assert all(line.count(" z") <= 40 for line in str(law).splitlines())
    assert "smaller terms" in str(law)
    assert "smaller terms" not in " ".join(law.equations())
    assert law.formulas(most=3)[0].count(" + ... ") == 1
