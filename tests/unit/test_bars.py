"""Progress bars: one at a time on a terminal, without moving the cursor up; none in files."""

import io

import pytest

from romkit.core import runtime


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    """Bars appear without delay, whatever the environment says."""
    usual = runtime._bar

    def prompt(label):
        return {"disable": False} | usual(label) | {"delay": 0, "mininterval": 0}

    monkeypatch.setattr(runtime, "_bar", prompt)


def written(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    for _ in runtime.track(range(3), "outer"):
        for _ in runtime.track(range(2), "inner"):
            list(runtime.track(range(2), "innermost"))
    return stream.getvalue()


def test_one_bar_at_a_time(monkeypatch, at_once):
    text = written(monkeypatch, Terminal())
    assert "\x1b" not in text
    assert "\n" not in text
    assert "outer 2/3, inner 1/2, innermost" in text
    assert not runtime.Bar._innermost()


def test_files_and_pipes_have_none(monkeypatch, at_once):
    assert written(monkeypatch, io.StringIO()) == ""


def test_a_bar_that_was_dropped_is_forgotten(monkeypatch, at_once):
    monkeypatch.setattr("sys.stderr", Terminal())
    next(iter(runtime.track(range(3), "dropped")))
    bar = runtime.track(range(3), "next")
    assert bar.outer is None
    bar.close()


def test_chunks_of_dask_are_counted_on_the_same_line(monkeypatch, at_once):
    dask_array = pytest.importorskip("dask.array")
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    for _ in runtime.track(range(1), "passes"):
        (total,) = runtime.computed("sum", dask_array.ones(6, chunks=2).sum())
    assert total == 6
    assert "passes 1/1, sum" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_budget_tells_the_work_and_the_time_left(monkeypatch, at_once):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    clock = iter([0.0, 0.0, 3.0, 70.0])  # of the end of the budget, of its begin, of the steps
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    with runtime.budget("candidates", 60):
        runtime.step("2 latents")
        runtime.step("3 latents")
    runtime.step("no budget")
    text = stream.getvalue()
    assert "3/60" in text
    assert "60/60" in text
    assert "3 latents" in text
    assert "no budget" not in text
