"""`romkit report`: one file that needs nothing else, of whatever romkit writes."""

import base64
import re
from pathlib import Path

import pytest

import romkit
from romkit.data import save_dataset
from tests.unit.test_cli import ran, refusal

OUTSIDE = re.compile(r"(?:src|href)=\"(?!data:)|<script|@import|url\(")


@pytest.fixture(scope="module")
def files(projection, lorenz_data, tmp_path_factory):
    """Everything there is to report on, by name."""
    folder = tmp_path_factory.mktemp("reports")
    run = romkit.rollout(romkit.systems.Lorenz96(transient=2.0), projection, F=[3.14, 3.15], duration=0.5)
    with pytest.warns(romkit.errors.FitWarning):
        law = romkit.integrators.SINDy(degree=1, threshold=0.9).fit(projection, lorenz_data)
    return {
        "run": save_dataset(run, folder / "run.nc"),
        "one": save_dataset(run.isel(trajectory=0), folder / "one.nc"),
        "data": save_dataset(lorenz_data, folder / "data.nc"),
        "model": romkit.save(projection, folder / "model.safetensors"),
        "law": romkit.save(law, folder / "law.safetensors"),
        "basis": romkit.save(romkit.basis(lorenz_data, 3), folder / "basis.safetensors"),
        "pretrained": "ncae-lorenz96",
    }


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", ("NRMSE", "Provenance", "<img")),
        ("one", ("NRMSE", "Provenance", "<img")),
        ("data", ("trajectory", "Provenance", "lorenz96")),
        ("model", ("ncae", "<img", "torch")),
        ("law", ("Equation", "Law")),
        ("basis", ("Basis", "modes", "energy left out")),
        ("pretrained", ("ncae", "recipe")),
    ],
)
def test_everything_has_a_report_that_stands_alone(name, words, files):
    ran("report", files[name], "--out page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert not [word for word in words if word not in page]
    assert not OUTSIDE.search(page)


def test_text_of_a_file_is_not_markup(lorenz_data):
    notes = {"note": "<script>alert(1)</script>", "other": "| [a](b) *c*"}
    Path("lorenz").mkdir()
    save_dataset(lorenz_data.assign_attrs(notes), "lorenz/data.nc")
    ran("report lorenz/data.nc")
    page = Path("report-lorenz.html").read_text(encoding="utf-8")  # data.nc is what commands call every dataset
    assert "&lt;script&gt;" in page
    assert "<td>| [a](b) *c*</td>" in page
    assert "<script" not in page


def test_the_report_of_a_study_is_one_page_with_its_pictures():
    Path("results").mkdir()
    Path("results/curve.png").write_bytes(b"not really a picture")
    text = "# How far\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![a curve](curve.png) [more](elsewhere.md) <script>\n"
    Path("results/REPORT.md").write_text(text)
    ran("report results/REPORT.md --out page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>How far</title>" in page
    assert "<h1>How far</h1>" in page
    assert "<td>2</td>" in page
    assert base64.b64encode(b"not really a picture").decode() in page
    assert not OUTSIDE.search(page)
    Path("results/curve.png").unlink()
    assert "curve.png: cannot be read" in refusal("report results/REPORT.md --out other.html")
    assert not Path("other.html").exists()
