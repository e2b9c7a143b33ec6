"""Every name of the reference has a docstring with an example that runs, and every public method
has a docstring.
"""

import doctest
import importlib
import importlib.util
import inspect
import operator
import sys
import warnings
from pathlib import Path

import pytest
import torch

import romkit
import romkit.certificates

PAGES = Path(__file__).parents[2] / "docs" / "site_tools" / "reference_pages.py"
RULES = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def pages():
    """What writes the reference, which knows its rooms."""
    spec = importlib.util.spec_from_file_location(PAGES.stem, PAGES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described():
    """Every public function and class once, by the first name that a reader meets."""
    reference, found = pages(), {}
    for room in map(importlib.import_module, reference.ROOMS):
        for name in reference.public(room):
            thing = getattr(room, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found.setdefault(id(thing), (f"{room.__name__}.{name}", thing))
    return dict(found.values())


NAMES = described()


def methods(cls):
    """Public methods and properties that a class of romkit has from itself or its bases, by name."""
    own = {
        name for base in cls.__mro__ if base.__module__.startswith("romkit") for name in vars(base)
    }
    found = {name: inspect.getattr_static(cls, name) for name in own if not name.startswith("_")}
    return {name: getattr(cls, name) for name, member in found.items() if _computes(member)}


def _computes(member):
    return inspect.isfunction(member) or isinstance(member, classmethod | staticmethod | property)


@pytest.mark.parametrize("name", NAMES)
def test_names_have_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # fewer steps of ascent give lower bounds that are as valid; the function hides its module
    monkeypatch.setattr(sys.modules["romkit.certificates.certify"], "STEPS", 5)
    own = inspect.cleandoc(NAMES[name].__doc__ or "")  # and not that of a base class
    example = doctest.DocTestParser().get_doctest(own, {}, name, None, None)
    assert example.examples, (
        "no example: two to five lines under `Example:` at the end of the docstring"
    )
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # examples show some
        result = doctest.DocTestRunner(optionflags=RULES).run(example, out=said.append)
    assert not result.failed, "".join(said)


def test_methods_have_a_docstring():
    classes = {name: thing for name, thing in NAMES.items() if inspect.isclass(thing)}
    silent = [
        f"{name}.{key}"
        for name, cls in classes.items()
        for key, method in methods(cls).items()
        if not inspect.getdoc(method)
    ]
    assert not silent


def test_pages_show_what_romkit_defines_and_nothing_that_classes_have_from_elsewhere():
    reference, NcAE = pages(), romkit.projections.NcAE
    left = {
        name
        for name in dir(NcAE)
        if not reference.inherited(None, "method", name, getattr(NcAE, name), False, None)
    }
    shown = {name for name in left if not name.startswith("_")}
    assert shown >= set(methods(NcAE))
    assert not shown & set(dir(torch.nn.Module)) - set(methods(NcAE))


def test_the_front_page_has_every_verb_by_its_task():
    listed = {name for names in pages().TASKS.values() for name in names}
    verbs = {name for name in romkit.__all__ if not inspect.ismodule(getattr(romkit, name))}
    assert verbs <= listed
    assert all(operator.attrgetter(name)(romkit) for name in listed)
