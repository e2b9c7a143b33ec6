"""The packer of `romkit.core.packing`: objects come back, and nothing is made that is not listed."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from romkit.core.packing import packed, unpacked
from tests.refusals import refused


@dataclass(frozen=True, eq=False)
class Layer:
    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class Network:
    FACTS: ClassVar[tuple[str, ...]] = ("error",)

    names: tuple[str, ...]
    layers: tuple[Layer, ...]
    pairs: tuple[tuple[Tensor, float], ...]
    error: Tensor
    report: tuple[object, ...]


CLASSES = {"Layer": Layer, "Network": Network}


def network():
    layers = Layer(torch.ones(2, 3), torch.zeros(3)), Layer(torch.ones(3, 1), None)
    error = torch.tensor([0.5, torch.inf], dtype=torch.float64)
    return Network(("a", "b"), layers, ((torch.arange(3), 0.5),), error, ({"law": "dmd", "x": 1},))


def test_an_object_comes_back_from_json_and_tensors():
    header, tensors = packed(network(), CLASSES)
    assert set(tensors) == {"layers.0.weight", "layers.0.bias", "layers.1.weight", "pairs.0.0"}
    back = unpacked(json.loads(json.dumps(header)), tensors, CLASSES)
    assert (back.names, back.report) == (("a", "b"), ({"law": "dmd", "x": 1},))
    assert back.layers[1].bias is None
    assert torch.equal(back.layers[0].weight, torch.ones(2, 3))
    assert torch.equal(back.error, network().error)
    assert back.error.dtype == torch.float64
    assert torch.equal(back.pairs[0][0], torch.arange(3))
    assert back.pairs[0][1] == 0.5


def test_classes_that_are_not_listed_are_neither_written_nor_made():
    refused("layers.0", packed, network(), {"Network": Network})
    header, tensors = packed(network(), CLASSES)
    with pytest.raises(LookupError, match="unknown class 'Layer'"):
        unpacked(header, tensors, {"Network": Network})
    with pytest.raises(LookupError):
        unpacked({"class": ["Layer"]}, tensors, CLASSES)


@pytest.mark.parametrize("missing", ["layers.0.weight", "pairs.0.0"])
def test_a_tensor_that_is_missing_is_no_part(missing):
    header, tensors = packed(network(), CLASSES)
    with pytest.raises(LookupError):
        unpacked(header, {k: t for k, t in tensors.items() if k != missing}, CLASSES)


def test_rules_are_checked_for_every_part():
    rules = {Layer: ((lambda layer: layer.weight.shape[0] == 2, "a wrong size"),)}
    header, tensors = packed(network(), CLASSES)
    with pytest.raises(ValueError, match="Layer: a wrong size"):
        unpacked(header, tensors, CLASSES, rules)
