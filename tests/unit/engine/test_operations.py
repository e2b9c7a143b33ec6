"""Every operation that is compiled, against torch: random and special values, shapes, broadcasting,
both precisions.
"""

import itertools
import shutil

import pytest
import torch
import torch.nn.functional as nn

from romkit.engine import Parametrised, RungeKutta, Unsupported, trace_field
from romkit.engine.decompositions import DECOMPOSED, OWN
from romkit.engine.formulas import FORMULAS
from romkit.engine.kernel import Newton
from romkit.engine.lower import OTHERS, VIEWS
from romkit.engine.trace import trace
from romkit.solvers import RK4

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
aten, inf, nan = torch.ops.aten, torch.inf, torch.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 30.0, -30.0, inf, -inf, nan]
"""Numbers at which functions change their branch, or end."""


def unary(function):
    return lambda v: function(v.s)


def binary(function):
    """All pairs of special numbers, and a member's own vector with a constant one."""
    return lambda v: torch.cat(
        [
            function(v.s.unsqueeze(-1), v.s.unsqueeze(-2)).flatten(-2),
            function(v.a[..., 0, :], v.k[0]),
        ],
        dim=-1,
    )


def numbers(function, *values):
    """With numbers from Python beside the tensor."""
    return lambda v: torch.cat([function(v.s, x) for x in values], dim=-1)


def compared(function):
    return binary(lambda a, b: function(a, b).to(a.dtype))


def flat(function):
    """A result of any shape, from `function(v)`, flattened for each member."""
    return lambda v: function(v).flatten(v.lead)


ELEMENTWISE = {
    "add": [binary(torch.add), binary(lambda a, b: torch.add(a, b, alpha=0.3)), numbers(torch.add, 2.5, -inf)],
    "sub": [binary(torch.sub), binary(lambda a, b: torch.sub(a, b, alpha=-2)), numbers(torch.sub, 2.5)],
    "rsub": [binary(torch.rsub), numbers(torch.rsub, 2.5, nan)],
    "mul": [
        binary(torch.mul),
        numbers(torch.mul, 0.1, 0),
        flat(lambda v: v.k[:, :1] * v.a[..., 0, :].unsqueeze(-2)),
        lambda v: v.s * v.s[..., 2:3],
    ],
    "div": [binary(torch.div), numbers(torch.div, 3, 0.0)],
    "addcmul": [binary(lambda a, b: torch.addcmul(a, b, a, value=0.3))],
    "addcdiv": [binary(lambda a, b: torch.addcdiv(a, b, a, value=0.3))],
    "pow": [binary(torch.pow), numbers(torch.pow, 1, 2, 3, 0.5, -1, 0, 4, -2.5), lambda v: torch.pow(2.0, v.s)],
    "clamp": [unary(lambda x: x.clamp(-1, 2)), unary(lambda x: x.clamp(max=0.5)), unary(lambda x: x.clamp(min=-1))],
    "clamp_min": [numbers(torch.clamp_min, 0, -1.5)],
    "clamp_max": [numbers(torch.clamp_max, 0, 2.5)],
    "threshold_backward": [binary(lambda a, b: aten.threshold_backward(*torch.broadcast_tensors(a, b), 0))],
    "sigmoid_backward": [binary(aten.sigmoid_backward)],
    "tanh_backward": [binary(aten.tanh_backward)],
    "silu": [unary(nn.silu)],
    "where": [binary(lambda a, b: torch.where(a > b, a, b)), unary(lambda x: torch.where(x > 0, x, 3.0))],
    "lt": [compared(torch.lt), numbers(lambda a, b: (a < b).to(a.dtype), 0, nan)],
    "gt": [compared(torch.gt), numbers(lambda a, b: (a > b).to(a.dtype), -inf)],
    "logical_not": [unary(lambda x: torch.logical_not(x).to(x.dtype))],
    "bitwise_and": [compared(lambda a, b: (a > 0) & (b > 0))],
    "bitwise_or": [compared(lambda a, b: (a > 0) | (b > 0))],
    "bitwise_not": [unary(lambda x: (~(x > 0)).to(x.dtype))],
    "isnan": [unary(lambda x: x.isnan().to(x.dtype))],
    "fmod": [binary(torch.fmod), numbers(torch.fmod, 0.7, -2.0)],
} | {
    name: [kind(getattr(torch, name))] for kind, names in (
        (binary, ("maximum", "minimum", "atan2")),
        (compared, ("le", "ge", "eq", "ne", "logical_and", "logical_or")),
        (unary, (
            "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "abs", "sign",
            "sgn", "floor", "ceil", "trunc", "round", "asin", "acos", "erf", "exp2", "log2", "log10", "relu", "neg",
            "reciprocal", "rsqrt", "sigmoid",
        )),
    ) for name in names
}  # fmt: skip

MOVED = {
    "alias": flat(lambda v: aten.alias(v.a) + 1),
    "clone": flat(lambda v: v.a.mT.clone()),
    "detach": flat(lambda v: v.a.detach()),
    "diagonal": lambda v: v.b.diagonal(dim1=-2, dim2=-1),
    "expand": flat(lambda v: v.a[..., :1].expand(*v.a.shape[:-1], 5) * v.k),
    "flip": flat(lambda v: v.a.flip(-1)),
    "index": flat(lambda v: v.a[..., torch.tensor([2, 0, 2])]),
    "index_select": flat(lambda v: v.a.index_select(-2, torch.tensor([2, 1]))),
    "permute": flat(lambda v: v.a.permute(*range(v.lead), -1, -2)),
    "repeat": flat(lambda v: v.a.repeat(*[1] * v.lead, 2, 3)),
    "roll": flat(lambda v: v.a.roll(2, -1)),
    "select": lambda v: v.a.select(-2, 1),
    "slice": flat(lambda v: v.a[..., 1::2]),
    "split": flat(lambda v: torch.cat(v.a.split(2, dim=-1)[::-1], dim=-1)),
    "split_with_sizes": flat(lambda v: v.a.split([1, 4], dim=-1)[1]),
    "squeeze": lambda v: v.a[..., :1].squeeze(-1),
    "t": lambda v: v.s.reshape(-1, 12).t().t().reshape(v.s.shape) * 2,
    "transpose": flat(lambda v: v.a.transpose(-1, -2)),
    "unbind": lambda v: v.a.unbind(-2)[2],
    "unsqueeze": flat(lambda v: v.a.unsqueeze(-1) * v.k[0]),
    "view": lambda v: v.s.view(*v.shape, 3, 4)[..., 1, :],
    "_unsafe_view": flat(lambda v: aten._unsafe_view(v.s, [*v.shape, 4, 3])),
}


def long_rows(v):
    """Rows of 22 numbers times three columns: long sums go by parts, with a rest of two."""
    rows = torch.cat([v.s, v.s[..., :10].sin()], dim=-1)
    return rows @ torch.linspace(-1, 1, 66, dtype=rows.dtype).view(22, 3)


OTHER = {
    "_to_copy": lambda v: (v.s > 0).to(v.s.dtype),
    "mm": lambda v: torch.cat([v.a[..., 0, :] @ v.k.mT, long_rows(v)], dim=-1),
    "bmm": flat(lambda v: v.a @ v.b),
    "sum": flat(
        lambda v: torch.cat([v.a.sum(-1), v.a.sum(-2), v.a.sum((-2, -1)).unsqueeze(-1)], dim=-1)
    ),
    "mean": flat(lambda v: torch.cat([v.a.mean(-1), v.a.mean(-2)], dim=-1)),
    "amax": flat(
        lambda v: torch.cat(
            [v.a.amax(-1), v.s.amax(-1, True), v.s[..., :-1].amax(-1, True)], dim=-1
        )
    ),
    "amin": flat(
        lambda v: torch.cat(
            [v.a.amin(-2), v.s.amin(-1, True), v.s[..., :-1].amin(-1, True)], dim=-1
        )
    ),
    "prod": flat(lambda v: torch.cat([v.a.prod(-1), v.a.prod(-2)], dim=-1)),
    "cumsum": flat(lambda v: torch.cat([v.a.cumsum(-1), v.a.cumsum(-2)], dim=-1)),
    "_linalg_solve_ex": flat(lambda v: torch.linalg.solve_ex(v.b, v.a.mT).result),
    "linalg_lu_solve": flat(lambda v: _solved_again(v)),
    "cat": lambda v: torch.cat([v.a[..., 0, :], v.k[0].expand(*v.shape, -1), v.s], dim=-1),
    "stack": flat(lambda v: torch.stack([v.a, v.c2], dim=-2)),
    "select_scatter": flat(lambda v: aten.select_scatter(v.a, v.c[..., 0, :], -2, 1)),
    "slice_scatter": flat(lambda v: aten.slice_scatter(v.a, v.c[..., :2], -1, 1, 4, 2)),
    "constant_pad_nd": flat(lambda v: nn.pad(v.a, (2, 1, 0, 1), value=0.25)),
}

COMPOSED = {
    "mv": lambda v: v.k @ v.t_vector + 0 * v.a[..., 0],
    "dot": lambda v: (v.k[0] @ v.t_vector) * v.a[..., 0, :1],
    "addmm": lambda v: nn.linear(v.a[..., 0, :], v.k, v.k[:, 0]),
    "baddbmm": flat(
        lambda v: torch.baddbmm(
            *(x.flatten(0, -3) for x in (v.c, v.a, v.b)), beta=2, alpha=0.5
        ).reshape(v.c.shape)
    ),
    "_softmax": flat(
        lambda v: torch.cat([v.a.softmax(-1), v.a.softmax(-2) + v.s[..., :1, None]], dim=-1)
    ),
    "_log_softmax": flat(lambda v: v.a.log_softmax(-1)),
    "all": lambda v: (v.a > -1).all(-1).to(v.a.dtype),
    "any": lambda v: (v.a > 1).any(-1).to(v.a.dtype),
    "celu": lambda v: nn.celu(v.s, 1.3),
    "diag_embed": lambda v: torch.cat(
        [v.s.diag_embed().flatten(v.lead), v.a.diag_embed(0, -3, -1).flatten(v.lead)], dim=-1
    ),
    "elu": lambda v: torch.cat([nn.elu(v.s, 0.7), nn.selu(v.s)], dim=-1),
    "gelu": lambda v: torch.cat([nn.gelu(v.x), nn.gelu(v.x, approximate="tanh")], dim=-1),
    "hardtanh": lambda v: torch.cat(
        [nn.hardtanh(v.s), nn.hardtanh(v.s, -2, 0.3), nn.relu6(v.s)], dim=-1
    ),
    "leaky_relu": lambda v: torch.cat([nn.leaky_relu(v.s), nn.leaky_relu(v.s, 0.2)], dim=-1),
    "lerp": lambda v: torch.cat(
        [torch.lerp(v.x, v.x.flip(-1), 0.3), torch.lerp(v.x, v.x.flip(-1), v.x)], dim=-1
    ),
    "linalg_vector_norm": lambda v: torch.cat(
        [
            v.a.norm(dim=-1),
            v.s.norm(dim=-1, keepdim=True),
            v.a.flatten(v.lead).norm(dim=-1, keepdim=True),
        ]
        + [torch.linalg.vector_norm(v.a, order, dim=-2) for order in (0, 1, 3, 0.5, inf, -inf)],
        dim=-1,
    ),
    "logsumexp": lambda v: torch.cat([v.a.logsumexp(-1), v.s[..., :9].logsumexp(-1, True)], dim=-1),
    "masked_fill": lambda v: v.s.masked_fill(v.s > 0, 0.5),
    "max": lambda v: torch.cat([v.a.max(-1).values, v.s.max(-1, keepdim=True).values], dim=-1),
    "min": lambda v: torch.cat([v.a.min(-2).values, v.s.min(-1, keepdim=True).values], dim=-1),
    "native_layer_norm": flat(
        lambda v: torch.cat(
            [nn.layer_norm(v.a, (5,), v.k[0], v.k[1]), nn.layer_norm(v.a, (3, 5))], dim=-1
        )
    ),
    "remainder": binary(torch.remainder),
    "softplus": lambda v: torch.cat([nn.softplus(v.s), nn.softplus(v.s, 3.0, 4.0)], dim=-1),
    "std": lambda v: torch.cat([v.a.std(-1), v.a.std(-2, correction=0)], dim=-1),
    "var": lambda v: torch.cat(
        [v.a.var(-1), v.a.var(-2, correction=0), v.a.var((-2, -1)).unsqueeze(-1)], dim=-1
    ),
}

CASES = {f"{name}-{k}": case for name, cases in ELEMENTWISE.items() for k, case in enumerate(cases)}
CASES |= MOVED | OTHER | COMPOSED
FEW = 10
"""Cases in a kernel."""
FAMILIES = [dict(list(CASES.items())[k : k + FEW]) for k in range(0, len(CASES), FEW)]
K = torch.ones(3, 4, dtype=torch.float64)
UNSUPPORTED = {
    "max.dim's indices": lambda y: y.max(-1, keepdim=True).indices * y,
    "sort": lambda y: y.sort(-1).values,
    "fft": lambda y: torch.fft.rfft(y).abs()[..., :1] * y,
    "eigh": lambda y: torch.linalg.eigvalsh(y.unsqueeze(-1) * y.unsqueeze(-2)),
    "div, rounded": lambda y: torch.div(y, 2, rounding_mode="floor"),
    "round, decimals": lambda y: torch.round(y, decimals=2),
    "random numbers": lambda y: y + torch.rand_like(y),
    "a constant that is changed": lambda y: K.mul_(y),
    "members mixed": lambda y: y - y.mean(0),
    "an index that depends on the state": lambda y: y[..., y.argmax()],
    "another precision": lambda y: y.to(torch.float16).to(y.dtype),
}


def _solved_again(v):
    factors, pivots, _ = torch.ops.aten._linalg_solve_ex(v.b, v.a.mT)[1:]
    return torch.linalg.lu_solve(factors, pivots, v.a.mT + 1)


class Values:
    """What a case may use: s (..., 12) special, x (..., 12) finite, a, c (..., 3, 5) and b (..., 5,
    5), regular; k.
    """

    size = 12 + 12 + 15 + 15 + 25

    def __init__(self, t, y):
        self.shape, self.lead = y.shape[:-1], y.ndim - 1
        self.s, self.x, a, c, b = y[..., : self.size].split([12, 12, 15, 15, 25], dim=-1)
        self.a, self.c, self.b = (
            p.unflatten(-1, n) for p, n in ((a, (3, 5)), (c, (3, 5)), (b, (5, 5)))
        )
        self.c2 = self.c
        self.b = self.b + 4 * torch.eye(5, dtype=y.dtype)
        self.k = torch.linspace(-1, 2, 15, dtype=y.dtype).reshape(3, 5).sin()
        self.t_vector = torch.cos(t) * torch.linspace(1, 2, 5, dtype=y.dtype)


class Unchecked(Newton):
    def _check(self, *_):
        pass


def computed(family, dtype, lead):
    """By name, what torch and the compiled code give for every case of a family, and torch in
    float64.
    """
    cases, sizes = FAMILIES[family], {}

    def field(t, y):
        parts = {name: case(Values(t, y)).flatten(y.ndim - 1) for name, case in cases.items()}
        sizes.update({name: part.shape[-1] for name, part in parts.items()})
        joined = torch.cat(list(parts.values()), dim=-1)
        return nn.pad(joined, (0, y.shape[-1] - joined.shape[-1]))

    generator = torch.Generator().manual_seed(0)
    y = torch.randn(*lead, 12_000, dtype=torch.float64, generator=generator).to(dtype)
    y[..., :12] = torch.tensor(SPECIAL, dtype=dtype)
    t = torch.tensor(0.3, dtype=dtype)
    field(t, y)
    y = y[..., : max(Values.size, sum(sizes.values()))]
    results = (
        field(t, y),
        Unchecked(field, t.unsqueeze(0), y).evaluate(t.item(), y),
        field(t.double(), y.double()),
    )
    results = (x[..., : sum(sizes.values())].split(list(sizes.values()), dim=-1) for x in results)
    return {name: parts for name, *parts in zip(sizes, *results, strict=True)}


@pytest.mark.parametrize(
    ("dtype", "lead"), [(torch.float64, (2, 5)), (torch.float32, (1,))], ids=str
)
@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_operations_equal_torch(family, dtype, lead):
    unit = torch.finfo(dtype).eps
    for name, (expected, found, exact) in computed(family, dtype, lead).items():
        assert torch.equal(found.isnan(), expected.isnan()), name
        assert torch.equal(found.isinf(), expected.isinf()), name
        assert torch.equal(found[found.isinf()], expected[expected.isinf()]), name
        error = (expected - exact).abs() if dtype == torch.float32 else torch.zeros_like(exact)
        allowed = 8 * unit * expected.abs() + 4 * error + 32 * unit
        wrong = expected.isfinite() & ~((found - expected).abs() <= allowed)
        assert not wrong.any(), (name, found[wrong][:5], expected[wrong][:5])


def test_every_operation_has_its_case():
    assert set(ELEMENTWISE) == set(FORMULAS)
    assert set(MOVED) == VIEWS
    assert set(OTHER) == set(OTHERS)
    assert set(COMPOSED) | {"copy", "var_mean"} == {
        *DECOMPOSED,
        *OWN,
    }  # below, and in native_layer_norm


def test_its_case_calls_it():
    for name in itertools.chain(FORMULAS, VIEWS, OTHERS):
        case = (ELEMENTWISE.get(name) or [(MOVED | OTHER)[name]])[0]
        states = torch.randn(5, Values.size), torch.randn(2, 5, Values.size)
        calls = [
            call
            for y in states
            for call in trace_field(lambda t, y, case=case: case(Values(t, y)), y).calls
        ]
        assert name in {call.name for call in calls}, name


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_has_no_compiled_form_says_so(name):
    y = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pytest.raises(Unsupported):
        RungeKutta(lambda t, y: UNSUPPORTED[name](y), torch.zeros(1, dtype=y.dtype), y)
    assert torch.equal(K, torch.ones_like(K))


def test_a_field_that_works_in_place_on_its_own_results_is_compiled():
    def field(t, y):
        result = y.clone()
        result[..., 0].mul_(2)
        result[..., 1:] -= y[..., :1]
        result[..., 2] = y[..., 0] * y[..., 1]
        return result

    y = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
    assert torch.equal(trace_field(field, y).module()(torch.zeros(()), y), field(0.0, y))
    assert torch.equal(
        RungeKutta(field, torch.zeros(1, dtype=y.dtype), y).evaluate(0.0, y), field(0.0, y)
    )


def test_a_field_with_parameters_is_recorded_once_for_all_their_values():
    """Calls on the parameters alone, some without a compiled form, are made again; the kernel
    stays.
    """
    generator = torch.Generator().manual_seed(0)
    first, second = (
        0.1 * torch.randn(9, 3, 3, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    y, times, recorded = (
        torch.ones(9, 3, dtype=torch.float64),
        torch.linspace(0, 1, 5, dtype=torch.float64),
        [],
    )

    def family(values):
        recorded.append(values.device.type)
        rotation = torch.linalg.inv(torch.eye(3, dtype=values.dtype) + values - values.mT)
        return lambda t, y: (
            (rotation @ y.unsqueeze(-1)).squeeze(-1) * values.sum((1, 2)).unsqueeze(-1).cos()
        )

    field = Parametrised(family, first)
    run, _ = RK4(0.1).prepare(field, y, times, "compiled", "")
    for values in (first, second, first):
        field.bind(values)
        expected = RK4(0.1)(family(values), y, times, engine="torch").states.movedim(-2, 0)
        assert torch.allclose(run(y, times), expected, rtol=1e-12, atol=1e-12)
    assert recorded.count("meta") == 1


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_shapes_of_joined_tensors_are_those_of_torch(dim):
    y = torch.rand(3, 2, dtype=torch.float64)
    for join in (torch.stack, torch.cat):
        recorded = trace(lambda y, join=join: join([y, 2 * y, y], dim), y)
        assert recorded.result.shape == join([y, y, y], dim).shape
    recorded = trace(lambda y: torch.where(y > 0, y, 1.0) + torch.ones(4, 1, 2).double(), y)
    assert recorded.result.shape == (4, 3, 2)
    assert recorded.result.dtype == torch.float64
