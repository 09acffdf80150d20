"""Rewrites of programs: the instructions before and after, and that the values are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Program, Tensor, chains, fuse, trace
from tensor.kernels import loops

A = Tensor(np.linspace(-1.0, 2.0, 6).reshape(2, 3), label="a")
B = Tensor(np.linspace(3.0, -2.0, 6).reshape(2, 3), label="b")


def lines(program: Program) -> list[str]:
    return [line.strip().replace(": float64[2, 3]", "") for line in str(program).splitlines()[1:]]


def rewritten(
    function: Callable[..., Any], rewrite: Callable[[Program], Program], *args: Tensor
) -> Program:
    """Return the rewritten program, after comparing what it yields with the original's."""
    args = args or (A, B)
    program = trace(function)(*args)
    shorter = rewrite(program)
    for found, wanted in zip(
        tensor.program.leaves(shorter(*args)), tensor.program.leaves(program(*args)), strict=True
    ):
        np.testing.assert_array_equal(found.data, wanted.data, strict=True)
    return shorter


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    assert lines(rewritten(lambda a, b: a * tensor.exp(np.float64(0.0)), fuse.folded)) == [
        "%0 = mul(a, 1.0)",
        "return %0",
    ]


def test_equal_instructions_are_merged() -> None:
    assert lines(rewritten(lambda a, b: (a * b).sum() + (a * b).sum(), fuse.merged)) == [
        "%0 = mul(a, b)",
        "%1: float64[] = sum(%0, dim=None, keepdim=False)",
        "%2: float64[] = add(%1, %1)",
        "return %2",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * 0.0 + a * -0.0,
        lambda a, b: a.sum(0) + a.sum(),
        lambda a, b: a[0] + a[1],
        lambda a, b: a[[0, 1]] + a[[1, 0]],
        lambda a, b: tensor.rand(3) + tensor.rand(3) + a,
    ],
    ids=["signs", "attributes", "indices", "arrays", "draws"],
)
def test_instructions_that_differ_are_not_merged(function: Callable[..., Any]) -> None:
    program = trace(function)(A, B)
    assert len(fuse.merged(program)) == len(program)


def test_a_parameter_is_read_again_after_it_was_changed() -> None:
    w = Tensor([1.0])

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        first = w * 2
        kept = w.clone()
        w.add_(1)
        return first + w * 2, kept

    program = fuse.optimized(trace(run)(A, B))
    w.copy_([1.0])
    first, kept = program(A, B)
    assert (first.item(), kept.item()) == (6.0, 1.0)


def test_what_nothing_needs_is_dropped_and_effects_are_kept() -> None:
    w = Tensor([1.0])

    def run(a: Tensor, b: Tensor) -> Tensor:
        (a * b).exp()
        tensor.rand(2)
        w.add_(1)
        return a - b

    assert lines(rewritten(run, fuse.pruned)) == [
        "%0: float32[2] = uniform()",
        "%1: float32[1] = add(t0, 1.0)",
        "%2: float32[1] = setitem(t0, %1, index=Ellipsis, accumulate=False)",
        "%3 = sub(a, b)",
        "return %3",
    ]


def test_gradients_are_kept() -> None:
    w = Tensor(np.ones((2, 3)), requires_grad=True, label="w")

    def run(a: Tensor, b: Tensor) -> None:
        (w * a).sum().backward()

    program = fuse.optimized(trace(run)(A, B))
    assert lines(program) == [
        "%0 = expand(1.0, shape=(2, 3))",
        "%1 = mul(%0, a)",
        "w.grad = %1",
        "return None",
    ] or [leaf.label for leaf, _ in program.gradients] == ["w"]
    w.grad = None
    program(B, A)
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.data, B.data)


def test_needless_copies_are_dropped() -> None:
    def run(a: Tensor, b: Tensor) -> Tensor:
        c = tensor.cast(a + b, "float64").clone()
        return c.reshape(2, 3) * a.clone()

    assert lines(rewritten(run, fuse.without_copies)) == [
        "%0 = add(a, b)",
        "%1 = clone(a)",
        "%2 = mul(%0, %1)",
        "return %2",
    ]


def test_a_program_that_overwrites_its_own_results_is_left_as_it_is() -> None:
    def run(a: Tensor, b: Tensor) -> Tensor:
        c = a + b
        d = c.clone()
        c[0] = 7
        return c * 2 + c * 2 + d

    program = trace(run)(A, B)
    assert fuse.overwrites(program)
    kept = rewritten(run, fuse.optimized)
    assert [i.op for i in kept.instructions] == [i.op for i in program.instructions]


# Chains


def chained(function: Callable[..., Any], *args: Tensor, fast: bool = False) -> Program:
    def rewrite(program: Program) -> Program:
        return chains.chained(fuse.optimized(program, fast), fast)

    return rewritten(function, rewrite, *args)


def test_elementwise_instructions_become_one_loop() -> None:
    w = Tensor(np.array([1.0, -2.0, 3.0]), label="w")
    program = chained(lambda a, b: ((a * b + w).relu() - a.sum(1, True)) / 2)
    assert lines(program) == [
        "%0: float64[2, 1] = sum(a, dim=1, keepdim=True)",
        "%1 = loop(a, b, w, %0, body=y0 = (relu((x0 * x1) + x2) - x3) / 2)",
        "%2 = part(%1, index=0)",
        "return %2",
    ]
    (chain,) = chains.chains(program)
    assert chain.inputs == ("full", "full", "row", "column")


def test_a_loop_says_in_a_formula_what_it_computes() -> None:
    a, b = loops.Ref("x", 0), loops.Ref("x", 1)
    two, tenth = loops.Ref("c", 0), loops.Ref("c", 1)
    v = [loops.Ref("v", k) for k in range(7)]
    steps = (
        *(("sub", (a, b)), ("lt", (b, two)), ("bitwise_not", (v[1],)), ("maximum", (b, v[0]))),
        *(("where", (v[2], v[0], v[3])), ("mul", (v[4], tenth)), ("div", (v[0], v[5]))),
    )
    outputs = ((5, "full"), (6, "full"), (4, "total"))
    chain = loops.Chain("float64", ("full", "full"), (2.0, 0.1), steps, outputs)
    assert chain.formulas(1) == [
        "v1 = x1 - x2",
        "v2 = where(~(x2 < 2), v1, maximum(x2, v1))",
        "y1 = v2 * 0.1",
        "y2 = v1 / y1",
        "y3 = sum(v2, 0)",
    ]
    assert repr(chain).startswith("v0 = x0 - x1; v1 = where(")
    single = loops.Chain(
        "float64", ("full",), (), (("neg", (a,)), ("exp", (v[0],))), ((1, "full"),)
    )
    assert single.formulas(1) == ["y1 = exp(neg(x1))"]


def test_the_sum_of_rows_ends_a_loop() -> None:
    def run(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        g = tensor.where(a <= 0, 0.0, b)
        return g @ b.T, g.sum(0)

    program = chained(run, fast=True)
    (chain,) = chains.chains(program)
    assert [form for _, form in chain.outputs] == ["full", "total"]
    assert loops.source(chain).splitlines() == [
        "def loop(part, count, x0, x1, y1, t1):",
        "    zero = np.float64(0)",
        "    c0 = np.float64(0.0)",
        "    c1 = np.float64(0.0)",
        "    rows, width = x0.shape",
        "    down, along = bounds(rows, 0, 1, 1), bounds(width, part, count, 16)",
        "    for j in range(*along):",
        "        t1[j] = zero",
        "    for i in range(*down):",
        "        for j in range(*along):",
        "            e0 = x0[i, j]",
        "            e1 = x1[i, j]",
        "            v0 = e0 <= c0",
        "            v1 = c1 if v0 else e1",
        "            y1[i, j] = v1",
        "            t1[j] += v1",
    ]


def test_what_reads_and_writes_no_whole_matrix_is_no_loop() -> None:
    row, column = Tensor([[1.0, 2.0, 3.0]]), Tensor([[4.0], [5.0]])
    program = chained(lambda a, b: (a * b + 1.0).sum(0), row, column, fast=True)
    assert [i.op for i in program.instructions] == ["mul", "add", "sum"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 5), (2, 3, 2, 7)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_sum_or_mean_over_all_leading_dimensions_ends_a_loop_and_gives_the_bits_of_the_op(
    keepdim: bool, shape: tuple[int, ...], dtype: str
) -> None:
    leading = tuple(range(len(shape) - 1))

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        g = (a * b + 1.0).relu()
        return g.sum(leading, keepdim), g.mean(leading, keepdim), (a - b).abs()

    rng = np.random.default_rng(0)
    a, b = (Tensor(rng.normal(size=shape), dtype) for _ in range(2))
    with tensor.use_kernels("numba"):
        program = chains.chained(fuse.optimized(trace(run)(a, b), True), True)
        assert "total" in {form for chain in chains.chains(program) for _, form in chain.outputs}
        assert not {"sum", "mean"} & {ins.op for ins in program.instructions}
        replay = tensor.compile(run)
        for _ in range(3):
            for found, wanted in zip(replay(a, b), run(a, b), strict=True):
                np.testing.assert_array_equal(found.data, wanted.data, strict=True)


@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 16), (2, 3, 2, 37), (40, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_sum_or_mean_of_each_row_ends_a_loop_and_gives_the_bits_of_the_op(
    keepdim: bool, shape: tuple[int, ...]
) -> None:
    def run(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        g = (a * b + 1.0).relu()
        return g.sum(-1, keepdim), g.mean(-1, keepdim), (a - b).abs(), a.mean(-1)

    rng = np.random.default_rng(0)
    a, b = (Tensor(rng.normal(size=shape).astype(np.float32)) for _ in range(2))
    with tensor.use_kernels("numba"):
        program = chains.chained(fuse.optimized(trace(run)(a, b), True), True)
        assert "across" in {form for chain in chains.chains(program) for _, form in chain.outputs}
        replay = tensor.compile(run)
        for _ in range(3):
            for found, wanted in zip(replay(a, b), run(a, b), strict=True):
                np.testing.assert_array_equal(found.data, wanted.data, strict=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: ((a * b).relu() - (a * b).relu().sum(1, True)) * 2.0,
        lambda a, b: ((a * b).relu() - (a * b).relu().sum(0)).abs() * 2.0,
        lambda a, b: ((a * b).relu() - (a * b).relu().mean(0, True)).abs() * 2.0,
        lambda a, b: (a * b).relu() * 2.0 + ((a - 1.0) * (a * b).relu().sum(0)).abs(),
        lambda a, b: ((a + b) * (a + b).sum(0) + (a + b) * 2.0).relu().sum(0) + (a + b),
    ],
    ids=["of each row", "sum", "mean", "through another loop", "twice"],
)
def test_a_loop_does_not_read_the_sum_that_it_ends_with(function: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (Tensor(rng.normal(size=(4, 5)).astype(np.float32)) for _ in range(2))
    replay = tensor.compile(function)
    for _ in range(3):
        np.testing.assert_array_equal(replay(a, b).data, function(a, b).data)


def test_a_loop_ends_where_its_values_are_needed_in_between() -> None:
    program = chained(lambda a, b: (a + b) * tensor.exp((a + b) * 2) - b)
    assert [i.op for i in program.instructions] == [
        *("loop", "part", "part", "exp", "loop", "part")
    ]
    assert [len(chain.steps) for chain in chains.chains(program)] == [2, 2]


def test_a_loop_does_not_reach_across_a_change() -> None:
    w = Tensor(np.ones((2, 3)))

    def run(a: Tensor, b: Tensor) -> Tensor:
        first = a * w + 1
        w.add_(1)
        return first * w

    program = trace(run)(A, B)
    rewritten_program = chains.chained(fuse.optimized(program), False)
    assert [i.op for i in rewritten_program.instructions] == [
        *("loop", "part", "add", "setitem", "mul")
    ]
    w.copy_(np.ones((2, 3)))
    np.testing.assert_array_equal(rewritten_program(A, B).data, (A.data + 1) * 2)


OPERANDS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.25, 1e-30, 3e38]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("op", sorted(loops.SCALAR))
def test_every_op_of_a_loop_gives_the_bits_of_its_kernel(op: str, fast: bool, dtype: str) -> None:
    a, b = (Tensor(x.copy(), dtype) for x in np.meshgrid(OPERANDS, OPERANDS))
    function = getattr(tensor.ops, op)

    def run(a: Tensor, b: Tensor) -> Tensor:
        p, q, r = a > 0, b + 0.0, a + 0.0  # so that there is a chain
        if op == "where":
            return function(p, q, r) + function(p, 0.0, q) + function(p, q, 0.0)
        if op.startswith("bitwise"):
            taken = (p, q > 0)[: 1 if op == "bitwise_not" else 2]
        else:
            taken = (r, q)[: len(tensor.dispatch.OPS[op].operands)]
        result = function(*taken)
        return tensor.where(result, q, r) if result.dtype == bool else result * 1.0

    program = chained(run, a, b, fast=fast)
    assert any(op == step for chain in chains.chains(program) for step, _ in chain.steps)


def test_where_numba_fails_a_loop_runs_on_numpy_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*args: Any) -> None:
        raise LookupError("no compiler")

    monkeypatch.setattr(chains, "compiled", broken)
    rows = Tensor(np.linspace(-1.0, 1.0, 60_000).reshape(20_000, 3))

    def run(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        g = tensor.where(a <= 0, 0.0, a * 2)
        return g.sum(0), g * b

    with tensor.use_kernels("numba"):
        program = chains.chained(fuse.optimized(trace(run)(rows, rows), True), True)
        with pytest.warns(RuntimeWarning, match="no compiler"):
            total, scaled = program(rows, rows)
    wanted, wanted_scaled = run(rows, rows)
    np.testing.assert_array_equal(scaled.data, wanted_scaled.data)
    np.testing.assert_array_equal(total.data, wanted.data)


def test_generated_modules_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMOLGRAD_CACHE", str(tmp_path))
    loops.compiled.cache_clear()
    for _ in range(2):
        chained(lambda a, b: (a - b) * (a + b), fast=True)
        loops.compiled.cache_clear()
    (path,) = (tmp_path / "loops").glob("*.py")
    written = path.stat().st_mtime_ns
    assert "v2 = v0 * v1" in path.read_text("utf-8")
    path.write_text("raise SystemExit('not what was written')", "utf-8")
    chained(lambda a, b: (a - b) * (a + b), fast=True)
    assert "v2 = v0 * v1" in path.read_text("utf-8")
    assert path.stat().st_mtime_ns >= written
    loops.compiled.cache_clear()
