"""The CUDA graph of a training step, where there is a GPU. What compiling alone does is in test_fit.py."""

import pytest
import torch

import romkit

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("optimizer", ["adam", "riemannian-adam"])
def test_training_in_a_cuda_graph_follows_eager_training(lorenz_data, optimizer):
    settings = {"seeds": [0, 1], "epochs": 5, "batch_size": 100, "optimizer": optimizer, "device": "cuda"}
    eager = romkit.fit("ncae", lorenz_data, **settings, compile=False).report["seeds"]
    captured = romkit.fit("ncae", lorenz_data, **settings, compile=True).report["seeds"]
    for one, other in zip(eager, captured, strict=True):
        assert (one["captured"], other["captured"]) == (False, True)
        assert other["losses"] == pytest.approx(one["losses"], rel=1e-3)
