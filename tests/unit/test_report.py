"""`romkit report`: one file that needs nothing else, of whatever romkit writes."""

import base64
import re
from pathlib import Path

import pytest

import romkit
from romkit.data import save_dataset
from romkit.integrators import SINDy
from tests.unit.test_cli import romkit_command

OUTSIDE = re.compile(r"(?:src|href)=\"(?!data:)|<script|@import|url\(")


@pytest.fixture
def files(lorenz_data, tmp_path, monkeypatch):
    """What there is to report on, by name."""
    monkeypatch.chdir(tmp_path)
    system = romkit.systems.Lorenz96(transient=2.0)
    model = romkit.fit("ncae", lorenz_data, epochs=2)
    run = romkit.rollout(system, model, F=[3.14, 3.15], duration=0.5)
    with pytest.warns(romkit.errors.FitWarning):
        law = SINDy(degree=1, threshold=0.9).fit(model, lorenz_data)
    return {
        "run": save_dataset(run, "run.nc"),
        "one": save_dataset(run.isel(trajectory=0), "one.nc"),
        "data": save_dataset(lorenz_data, "data.nc"),
        "model": romkit.save(model, "model.safetensors"),
        "law": romkit.save(law, "law.safetensors"),
        "basis": romkit.save(romkit.basis(lorenz_data, 3), "basis.safetensors"),
        "pretrained": "ncae-lorenz96",
    }


def test_everything_has_a_report_that_stands_alone(files):
    expected = {
        "run": ("NRMSE", "Provenance", "<img"),
        "one": ("NRMSE", "Provenance", "<img"),
        "data": ("trajectory", "Provenance", "lorenz96"),
        "model": ("ncae", "<img", "torch"),
        "law": ("SINDyModel", "Law"),
        "basis": ("Basis", "modes", "energy left out"),
        "pretrained": ("ncae", "recipe"),
    }
    for name, words in expected.items():
        result = romkit_command("report", files[name], "--out", f"{name}.html")
        assert result.exit_code == 0, result.output
        page = Path(f"{name}.html").read_text(encoding="utf-8")
        assert all(word in page for word in words), name
        assert not OUTSIDE.search(page)


def test_text_of_a_file_is_not_markup(lorenz_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_dataset(lorenz_data.assign_attrs(note="<script>alert(1)</script>"), "data.nc")
    romkit_command("report", "data.nc")
    Path("lorenz").mkdir()
    Path("lorenz/data.nc").write_bytes(Path("data.nc").read_bytes())
    romkit_command("report", "lorenz/data.nc")
    assert Path("report-lorenz.html").is_file()  # what commands write has a name of its own in its folder alone
    page = Path("report-data.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert "<script" not in page


def test_the_report_of_a_study_is_one_page_with_its_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("results/curve.png").write_bytes(b"not really a picture")
    text = "# How far\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![a curve](curve.png) [more](elsewhere.md) <script>\n"
    Path("results/REPORT.md").write_text(text)
    assert romkit_command("report", "results/REPORT.md", "--out", "page.html").exit_code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>How far</h1>" in page
    assert "<td>2</td>" in page
    assert base64.b64encode(b"not really a picture").decode() in page
    assert not OUTSIDE.search(page)
    Path("results/curve.png").unlink()
    missing = romkit_command("report", "results/REPORT.md", "--out", "other.html")
    assert missing.exit_code != 0
    assert "curve.png: cannot be read" in missing.output
    assert not Path("other.html").exists()
