"""`romkit.hidden_manifold`: projections whose context nobody recorded, trained together with it."""

import inspect
from collections.abc import Callable

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit.core.boundary import Count, validated
from romkit.core.errors import InputError
from romkit.core.tensors import divisor
from romkit.core.types import Array, Kwargs, NameSequence
from romkit.hidden.reading import assign_hidden, described, group_labels, known_names, order_groups
from romkit.hidden.starts import offset_points
from romkit.projections import EncoderDecoder, Projection
from romkit.verbs.fit import find_method, fit
from romkit.verbs.training_set import raise_precision

VALUES = "values"
"""Name of the parameters that hold the contexts of the groups."""


@validated
def hidden_manifold(
    method: object,
    runs: xr.Dataset,
    group: str | None = None,
    *,
    number: Count = 1,
    context: NameSequence | None = None,
    **settings: object,
) -> tuple[Projection, xr.Dataset]:
    """Train a projection whose context nobody recorded, together with that context.

    Each group of runs has free values, which are trained with the maps as if they were parameters
    of these. They begin where runs are apart: along the means and covariances of their states. They
    fill [-1, 1], and are known up to a smooth change.

    Args:
        method: a trained one that follows a context, "ncae" say; see `romkit.fit`.
        runs: a dataset in romkit's schema.
        group: name of the coordinate that tells which runs share a context; by default each run has
            its own.
        number: of hidden parameters.
        context: names of the parameters that are known; by default those that the data declare.
        **settings: of `romkit.fit`.

    Returns:
        The projection, and the runs with hidden1, hidden2, ... as parameters, by which everything
        else works on both.

    Raises:
        InputError: a method that is not trained or has no context, or fewer than three groups.

    Source: Bojanowski, Joulin, Lopez-Paz, Szlam (2018), Optimizing the latent space of generative
    networks, for values that are trained with a network.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.1, 3.14, 3.18])
        >>> runs = data.drop_vars("F")
        >>> ncae, runs = romkit.hidden_manifold("ncae", runs, latent_dim=2, epochs=1, verbose=False)
        >>> runs["hidden1"].shape, ncae.frame.context_names
        ((3,), ('hidden1',))
    """
    kind, sizes = find_method("method", method)
    if not kind.trained:
        fix = "give 'ncae', or find the parameters by romkit.hidden_context first"
        raise InputError("method", expected="a trained method", got=kind.name, fix=fix)
    data = described(runs, context)
    parameters = known_names(data, group, context)
    names, rows = order_groups(group_labels(data, group))
    if len(names) < 3:
        fix = "name what tells them apart, group='batch', or give more runs"
        raise InputError("group", expected="3 groups or more", got=len(names), fix=fix)
    start = _told(data, rows, number)
    numbers = 2 * rows / (len(names) - 1) - 1
    marked = _declared(data, parameters, np.tile(numbers[:, None], number))
    free = _embed_values(kind, start)
    options: Kwargs = {**sizes, **settings}
    model = fit(free, marked, **options)
    values = _filled(model.get_parameter(VALUES)).detach().double().numpy()
    return _plain(kind, model), _declared(data, parameters, values[rows])


def _told(data: xr.Dataset, rows: Array, number: int) -> Tensor:
    """Return places (G, r) of groups by the means and covariances of their states."""
    states = data["state"].transpose("trajectory", "time", "component").values.astype(float)
    deviation = np.nanstd(states, (0, 1))
    scaled = (states - np.nanmean(states, (0, 1))) / np.where(deviation > 0, deviation, 1.0)
    features = []
    for group in range(rows.max() + 1):
        rows_of_group = scaled[rows == group].reshape(-1, scaled.shape[-1])
        rows_of_group = rows_of_group[np.isfinite(rows_of_group).all(-1)]
        features.append(
            np.concatenate(
                [
                    rows_of_group.mean(0),
                    (rows_of_group.T @ rows_of_group / len(rows_of_group)).ravel(),
                ]
            )
        )
    return offset_points(torch.from_numpy(np.stack(features)), number)


def _declared(data: xr.Dataset, known: NameSequence, values: Array) -> xr.Dataset:
    """Return data with hidden parameters (C, r) that fill [-1, 1], as a model of them is scaled."""
    columns = {f"hidden{k + 1}": column for k, column in enumerate(values.T)}
    data = assign_hidden(data, tuple(known), columns)
    for name in columns:
        data[name].attrs["training_range"] = [-1.0, 1.0]
    return data


def _filled(values: Tensor) -> Tensor:
    """Return values (..., G, r) that fill [-1, 1]: a shift or a factor of all is a choice."""
    low = values.amin(-2, keepdim=True)
    high = values.amax(-2, keepdim=True)
    return 2 * (values - low) / divisor(high - low) - 1


def _embed_values(kind: type[Projection], start: Tensor) -> type[Projection]:
    """Return a method of which values (G, r) of the groups are parameters: its hidden context is the
    number of a group, spread over [-1, 1].
    """
    G, r = start.shape

    class WithValues(kind):  # type: ignore[misc, valid-type]
        __doc__ = kind.__doc__

        def __init__(self, *arguments: object, **sizes: object):
            super().__init__(*arguments, **sizes)
            self.values = nn.Parameter(start.float())

        def at(self, c: Tensor) -> EncoderDecoder:
            return super().at(self.looked_up(c))

        def initialise(self, y: Tensor, c: Tensor, *further: object) -> object:
            with torch.no_grad():
                return super().initialise(y, self.looked_up(c), *further)

        def looked_up(self, c: Tensor) -> Tensor:
            """Return contexts (..., p + r) with values in place of numbers of groups."""
            number = ((c[..., -1:] + 1) / 2 * (G - 1)).round()
            is_group = (number == torch.arange(G, device=c.device)).to(c.dtype)
            return torch.cat([c[..., :-r], is_group @ _filled(self.values).to(c.dtype)], -1)

    WithValues.__signature__ = inspect.signature(kind)  # by which sizes are told
    return WithValues


def _plain(kind: type[Projection], model: Projection) -> Projection:
    """Return the same projection, as one of the method itself."""
    build: Callable[..., Projection] = kind
    plain = build(model.frame, torch.Generator().manual_seed(0), **model.config)
    parameters = {n: value for n, value in model.state_dict().items() if n != VALUES}
    plain.load_state_dict(parameters)
    plain.report = model.report
    return raise_precision(plain)
