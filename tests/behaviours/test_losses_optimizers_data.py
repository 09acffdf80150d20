"""Losses, optimizers, state, data, gradient checks and drawings."""

from __future__ import annotations

import hashlib
import io
import random
import time
import tracemalloc
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from safetensors.numpy import load, save

import micro
from micro import Value
from tensor import Tensor, grad, gradcheck, gradgradcheck, nn, optim
from tensor.data import CorruptDataError, DataLoader, DownloadError, TensorDataset
from tensor.data.fetch import fetch
from tensor.data.idx import parse_idx, parse_labels
from tensor.nn import functional, utils
from tensor.tensor import from_numpy
from tests.behaviours.engines import Engine, each_engine
from tests.tensor.data.conftest import MirrorServer
from tests.tensor.data.test_fetch import CONTENT, FILE, GZIPPED, HTML, flipped
from tests.tensor.data.test_idx import IMAGES, idx
from tests.tensor.optim.cases import moved
from viz import draw

inf, nan = float("inf"), float("nan")
RNG: Final = np.random.default_rng(11)
WEIGHTS: Final = np.array([0.5, 1.0, 2.0, 0.1])

each_weight = pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
each_loss = pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])

# Losses


@each_weight
@each_loss
def test_where_all_targets_are_ignored_the_mean_is_nan_and_the_sum_0(
    name: str, weight: Any
) -> None:
    x, target = Tensor(RNG.normal(size=(3, 4, 2)), requires_grad=True), np.full((3, 2), -100)
    loss = getattr(functional, name)
    assert np.isnan(loss(x, target, weight).item())
    assert loss(x, target, weight, reduction="sum").item() == 0
    loss(x, target, weight, reduction="sum").backward()
    assert x.grad is not None and not x.grad.data.any()


TARGETS: Final[dict[str, tuple[list[Any], type[Exception], str]]] = {
    "out of range": ([0, 3], IndexError, r"target 3 is outside \[0, 3\)"),
    "negative": ([0, -1], IndexError, r"target -1 is outside \[0, 3\)"),
    "float": ([0.0, 1.0], RuntimeError, "target must hold integers, got float32"),
    "too many": ([0, 1, 2], ValueError, r"\(2,.*target .*got \(3,\)"),
}


@pytest.mark.parametrize("what", TARGETS)
@each_loss
def test_targets_that_make_no_sense_are_refused(name: str, what: str) -> None:
    target, error, message = TARGETS[what]
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(error, match=f"^{name}: .*{message}"):
        getattr(functional, name)(x, Tensor(target))
    assert x.grad is None
    kept = functional.cross_entropy(x, Tensor([0, -1]), ignore_index=-1)
    assert kept.item() == pytest.approx(np.log(3))


@each_weight
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_with_ignored_rows_is_that_of_the_rows_that_are_kept(
    smoothing: float, reduction: str, weight: Any
) -> None:
    logits, target = RNG.normal(size=(6, 4)), np.array([0, -100, 3, 1, -100, 2])
    kept = target != -100
    loss = nn.CrossEntropyLoss(weight, label_smoothing=smoothing, reduction=reduction)
    x, y = Tensor(logits, requires_grad=True), Tensor(logits[kept], requires_grad=True)
    out, wanted = loss(x, target), loss(y, target[kept])
    assert out.item() == pytest.approx(wanted.item(), rel=1e-14)
    gx, gy = grad(out, x)[0], grad(wanted, y)[0]
    assert gx is not None and gy is not None
    np.testing.assert_allclose(gx.data[kept], gy.data, rtol=1e-13)
    np.testing.assert_array_equal(gx.data[~kept], 0)


def test_micro_batches_of_3_and_1_rows_sum_to_the_gradient_of_the_batch_of_4() -> None:
    rows, w = Tensor(RNG.normal(size=(4, 3))), Tensor(RNG.normal(size=3), requires_grad=True)
    for part in (rows[:3], rows[3:]):
        (part @ w).exp().sum().backward()
    (whole,) = grad((rows @ w).exp().sum(), w)
    assert whole is not None
    np.testing.assert_allclose(w.grad, whole, rtol=1e-14)


def test_micro_batches_of_values_sum_to_the_gradient_of_the_batch() -> None:
    rows, ws = RNG.normal(size=(4, 3)).tolist(), [Value(w) for w in (0.3, -0.7, 1.1)]

    def loss(part: list[list[float]]) -> Value:
        outs = [sum((x * w for x, w in zip(row, ws, strict=True)), Value(0.0)) for row in part]
        return sum((micro.exp(out) for out in outs), Value(0.0))

    for part in (rows[:3], rows[3:]):
        loss(part).backward()
    whole = [g.data for g in micro.grad(loss(rows), ws)]
    np.testing.assert_allclose([w.grad for w in ws], whole, rtol=1e-14)


# Optimizers


def test_a_tied_weight_is_counted_once_has_one_state_and_sums_both_uses() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)).double()
    model[1].weight = model[0].weight
    assert [name for name, _ in model.named_parameters()] == ["0.weight"]
    before = model[0].weight.data.copy()
    optimizer = optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    model(Tensor(np.eye(3))).sum().backward()
    # d/dW of the sum of W @ W over all elements, both uses of W
    expected = before.sum(0)[:, None] + before.sum(1)[None, :]
    optimizer.step()
    np.testing.assert_allclose(model[1].weight.data, before - expected, rtol=1e-13)
    assert len(optimizer.state) == 1


def test_a_tied_value_is_counted_once_and_sums_both_uses() -> None:
    class Tied(micro.nn.Module):
        def __init__(self) -> None:
            self.first = self.again = Value(3.0)

    model = Tied()
    assert model.parameters() == [model.first]
    (model.first * model.again).backward()
    micro.optim.SGD(model.parameters(), lr=1.0).step()
    assert (model.first.data, model.again.data) == (-3.0, -3.0)


@pytest.mark.parametrize("g", [1e-3, -2.0, 50.0])
def test_the_first_step_of_adam_is_the_rate_against_the_sign(g: float) -> None:
    wanted = pytest.approx(1 - 0.01 * np.sign(g), abs=1e-6)
    assert moved(optim.Adam, 1.0, g, lr=0.01) == wanted
    assert moved(optim.AdamW, 1.0, g, lr=0.01, weight_decay=0) == wanted
    value = Value(1.0)
    value.grad = g
    micro.optim.Adam([value], lr=0.01).step()
    assert value.data == wanted


def test_adamw_without_a_gradient_only_decays() -> None:
    assert moved(optim.AdamW, 1.0, 0.0, lr=0.1, weight_decay=0.1) == pytest.approx(0.99, abs=1e-15)


def test_the_norm_of_a_generators_gradients_is_clipped_and_that_of_nothing_is_0() -> None:
    p = nn.Parameter(np.ones(2))
    p.grad = Tensor(np.array([3.0, 4.0]))
    kept = p.grad
    assert utils.clip_grad_norm_((q for q in [p]), 1.0).item() == 5
    np.testing.assert_allclose(kept.data, [0.6, 0.8], rtol=1e-6)
    assert p.grad is kept and kept.version == 1
    for nothing in ([], iter(()), [nn.Parameter(np.ones(2))]):
        norm = utils.clip_grad_norm_(nothing, 1.0)
        assert (norm.item(), norm.shape) == (0, ())


@pytest.mark.parametrize("bad", [inf, nan])
def test_a_norm_that_is_not_finite_is_an_error_if_wanted_before_anything_changes(
    bad: float,
) -> None:
    first, second = nn.Parameter(np.ones(2)), nn.Parameter(np.ones(2))
    first.grad, second.grad = Tensor(np.array([3.0, 4.0])), Tensor(np.array([bad, 1.0]))
    with pytest.raises(RuntimeError, match=rf"^clip_grad_norm_: the total norm .* {bad}"):
        utils.clip_grad_norm_([first, second], 1.0, error_if_nonfinite=True)
    assert first.grad.tolist() == [3, 4] and first.grad.version == second.grad.version == 0
    np.testing.assert_array_equal(second.grad.data, [bad, 1])


MAKES: Final = {
    "micro": (micro.optim, lambda: Value(1.0)),
    "tensor": (optim, lambda: nn.Parameter(np.ones(2))),
}
BAD_OPTIMIZERS: Final[dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]]] = {
    "an empty list": (lambda lib, p: lib.SGD([], lr=0.1), ValueError, "empty"),
    "a duplicate": (lambda lib, p: lib.SGD([p, p], lr=0.1), ValueError, "twice|more than once"),
    "a result": (lambda lib, p: lib.SGD([p * 2], lr=0.1), ValueError, "is a result|non-leaf"),
    "a negative rate": (lambda lib, p: lib.SGD([p], lr=-1), ValueError, "-1"),
    "beta of 1": (lambda lib, p: lib.Adam([p], betas=(0.9, 1.0)), ValueError, r"1\b.* 1\.0"),
    "a number": (lambda lib, p: lib.SGD([3.0], lr=0.1), TypeError, "float"),
    "no list": (lambda lib, p: lib.SGD(p, lr=0.1), TypeError, "iterable|list"),
    "a rate of text": (lambda lib, p: lib.SGD([p], lr="fast"), TypeError, "got str"),
    "one beta": (lambda lib, p: lib.Adam([p], betas=0.9), TypeError, "pair.*0.9"),
}


@pytest.mark.parametrize("engine", MAKES)
@pytest.mark.parametrize("what", BAD_OPTIMIZERS)
def test_an_optimizer_of_what_makes_no_sense_is_refused(what: str, engine: str) -> None:
    (lib, make), (build, error, message) = MAKES[engine], BAD_OPTIMIZERS[what]
    p = make()
    data = p.data
    with pytest.raises(error, match=message):
        build(lib, p)
    assert p.data is data
    lib.SGD([p], lr=0.1).step()


# State


def test_a_state_that_does_not_fit_is_one_error_that_lists_all_and_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    state, before = model.state_dict(), model.state_dict()
    versions = [p.version for p in model.parameters()]
    del state["0.bias"], state["1.bias"]
    state.update(extra=Tensor([1.0]), more=Tensor([2.0]))
    state["0.weight"], state["1.weight"] = Tensor(np.ones((2, 3))), Tensor(np.full((1, 3), 7.0))
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    for words in (
        'Missing key(s) in state_dict: "0.bias", "1.bias"',
        'Unexpected key(s) in state_dict: "extra", "more"',
        "size mismatch for 0.weight",
        "(2, 3)",
        "(3, 2)",
    ):
        assert words in message
    after = model.state_dict()
    assert all(np.array_equal(before[name].data, after[name].data) for name in before)
    assert [p.version for p in model.parameters()] == versions


SAVED: Final = {
    "transposed": np.arange(6.0).reshape(2, 3),
    "0-d": np.array(2.5),
    "size 0": np.zeros((0, 3)),
}


@pytest.mark.parametrize("values", SAVED.values(), ids=SAVED)
def test_a_transposed_a_0_d_and_an_empty_tensor_are_saved_and_loaded(
    values: np.ndarray[Any, Any],
) -> None:
    saved = Tensor(values).T
    file = io.BytesIO()
    np.save(file, saved.numpy(), allow_pickle=False)
    file.seek(0)
    assert np.array_equal(np.load(file, allow_pickle=False), values.T)

    source, target = nn.Module(), nn.Module()
    source.weight = nn.Parameter(saved)
    for read in (lambda state: state, lambda state: load(save(arrays(state)))):
        target.weight = nn.Parameter(Tensor(np.full(values.T.shape, 7.0)))
        target.load_state_dict(read(source.state_dict()))
        assert np.array_equal(target.weight.data, values.T)


def arrays(state: dict[str, Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.numpy() for name, value in state.items()}


# Data


SEVEN: Final = TensorDataset(np.arange(7))
BAD_LOADERS: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "batch_size 0": (lambda: DataLoader(SEVEN, 0), "batch_size is 0, wanted a positive integer"),
    "batch_size -1": (lambda: DataLoader(SEVEN, -1), "batch_size is -1, wanted"),
    "batch_size 2.5": (lambda: DataLoader(SEVEN, 2.5), "batch_size is 2.5, wanted"),  # type: ignore[arg-type]
    "empty dataset": (lambda: DataLoader(TensorDataset(np.ones(0))), "the dataset is empty"),
    "no batch": (
        lambda: DataLoader(SEVEN, 8, drop_last=True),
        "drop_last leaves no batch of 8 from 7 samples",
    ),
}


@pytest.mark.parametrize("what", BAD_LOADERS)
def test_a_loader_that_could_yield_nothing_sensible_is_refused(what: str) -> None:
    build, message = BAD_LOADERS[what]
    with pytest.raises(ValueError, match=f"^DataLoader: {message}"):
        build()


DAMAGED: Final = {
    "truncated gzip": (GZIPPED[: len(GZIPPED) // 2], "a truncated gzip file"),
    "flipped byte": (flipped(CONTENT, 100), "the right size, but altered"),
    "HTML page": (HTML, "an HTML page"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_named_with_both_hashes_and_the_remedy(what: str, tmp_path: Path) -> None:
    data, reason = DAMAGED[what]
    path = tmp_path / "set" / "values"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(CorruptDataError) as caught:
        fetch(FILE, root=tmp_path)
    message = str(caught.value)
    assert str(path) in message and reason in message
    assert f"expected content of SHA-256 {FILE.sha256}, found " in message
    if what != "truncated gzip":  # whose content is what could be decompressed
        assert hashlib.sha256(data).hexdigest() in message
    assert message.endswith("Replace the file, or take it away to have it downloaded.")


@pytest.mark.parametrize("what", DAMAGED)
def test_the_cache_never_holds_a_damaged_download(
    what: str, tmp_path: Path, server: MirrorServer
) -> None:
    data, reason = DAMAGED[what]
    cache, file = tmp_path / "cache", replace(FILE, mirrors=(server.answer("values", data),))
    with pytest.raises(DownloadError) as caught:
        fetch(file, cache=cache)
    for words in (FILE.name, f"SHA-256 {FILE.sha256}, found ", reason, "SMOLGRAD_DATA"):
        assert words in str(caught.value)
    assert not cache.exists()
    server.answer("values", CONTENT)
    assert fetch(file, cache=cache) == CONTENT


BAD_IDX: Final[dict[str, tuple[Callable[[], object], str]]] = {
    "wrong magic": (
        lambda: parse_idx(idx(IMAGES, magic=0x0D03), "images", (None, 3, 4)),
        "images: magic number is 0x00000d03, wanted 0x00000803",
    ),
    "another size": (
        lambda: parse_idx(idx(IMAGES), "images", (None, 28, 4)),
        "images: size of dimension 1 is 3, wanted 28",
    ),
    "another length": (
        lambda: parse_idx(idx(IMAGES)[:-1], "images", (None, 3, 4)),
        r"images: data has 23 bytes, wanted 24 for sizes \(2, 3, 4\)",
    ),
    "a label above 9": (
        lambda: parse_labels(idx(np.array([3, 10])), "labels"),
        "labels: label 1 is 10, wanted one from 0 to 9",
    ),
}


@pytest.mark.parametrize("what", BAD_IDX)
def test_an_idx_file_that_does_not_fit_is_refused_with_file_field_found_and_wanted(
    what: str,
) -> None:
    parse, message = BAD_IDX[what]
    with pytest.raises(ValueError, match=f"^{message}"):
        parse()


def test_the_sizes_in_an_idx_file_are_checked_before_anything_is_allocated() -> None:
    content = idx(IMAGES, sizes=(10**6, 28, 28))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="wanted 784000000"):
            parse_idx(content, "images", (None, 28, 28))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


# Gradient checks


@pytest.mark.parametrize(
    "array",
    [
        np.broadcast_to(np.array([0.5, 1.5, -2.0]), (4, 3)),
        np.linspace(0.5, 3, 12)[::2],
        np.linspace(0.5, 3, 6)[::-1],
        np.asfortranarray([[-1.3, 0.4, 0.9], [2.1, -0.2, 1.7]]),
    ],
    ids=["expanded", "strided", "reversed", "fortran"],
)
def test_an_expanded_or_strided_input_is_checked_on_a_private_copy(array: Any) -> None:
    x = from_numpy(array).requires_grad_()
    before = array.copy()
    seen = []

    def func(x: Tensor) -> Tensor:
        seen.append(x.data)
        return x * x

    assert gradcheck(func, x) and gradgradcheck(func, x)
    assert all(a.flags.c_contiguous and not np.shares_memory(a, array) for a in seen)
    np.testing.assert_array_equal(array, before)


def test_a_check_in_which_nothing_requires_grad_is_an_error() -> None:
    x = Tensor(np.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="gradcheck: no input requires grad"):
        gradcheck(lambda x: x * 2, [x])
    with pytest.raises(ValueError, match="gradgradcheck: no input requires grad"):
        gradgradcheck(lambda x: x * 2, x)
    with pytest.raises(ValueError, match="no input requires grad"):
        gradcheck(lambda x: x, [], raise_exception=False)
    with pytest.raises(ValueError, match="gradcheck: func returned no floating Tensor"):
        gradcheck(lambda x: x > 0, x.clone().requires_grad_())
    with pytest.raises(ValueError, match="gradgradcheck: no output of func requires grad"):
        gradgradcheck(lambda x: x.detach(), x.clone().requires_grad_())


# Drawings


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter() if text.tag.endswith("}text")]


@each_engine
def test_a_label_is_drawn_as_written(engine: Engine) -> None:
    x = engine.leaf(2.0)
    x.label = '{ } | < > " \\ \\n &amp;\nbelow'
    out = x.exp()
    out.label = '{ } | < > " \\'
    lines = texts(draw(out).svg())
    assert {'{ } | < > " \\ \\n &amp;', "below", '{ } | < > " \\'} <= set(lines)


@each_engine
def test_a_graph_of_3000_nodes_is_drawn_in_seconds_and_says_how_much_is_folded(
    engine: Engine,
) -> None:
    rng = random.Random(1)
    nodes = [engine.leaf(1e-3)]
    for i in range(2_999):
        function = (engine.ops.add, engine.ops.mul, engine.ops.maximum)[i % 3]
        nodes.append(function(nodes[-1], rng.choice(nodes)))
    start = time.perf_counter()
    drawing = draw(nodes[-1])
    svg = drawing.svg()
    assert time.perf_counter() - start < 10
    assert svg.count('class="node') == len(drawing.graph.nodes) <= 150
    folded = drawing.graph.folded
    assert folded + len([n for n in drawing.graph.nodes if n.members == 1]) == 3_000
    assert f"{folded:,} of 3,000 nodes are folded" in svg
