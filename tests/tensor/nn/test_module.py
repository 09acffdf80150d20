"""Module: what belongs to it, its modes, its state, its text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import tensor
from tensor import Tensor, nn, no_grad
from tests.tensor.nn.twins import names_and_shapes


def model(lib: Any) -> Any:
    """A model with a parameter of its own, buffers, nesting and a tied weight."""

    class Block(lib.Module):  # type: ignore[misc,name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = lib.LayerNorm(width)
            self.dropout = lib.Dropout(0.5)
            self.linear = lib.Linear(width, width)

    class Model(lib.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            array = np.arange(3, dtype=np.float32)
            own = torch.tensor(array) if lib is torch.nn else array
            self.embedding = lib.Embedding(7, 4)
            self.scale = lib.Parameter(own)
            self.blocks = lib.ModuleList([Block(4), Block(4)])
            self.mean = lib.Buffer(own)
            self.cache = lib.Buffer(own, persistent=False)
            self.by_name = lib.ModuleDict({"a": lib.Tanh(), "b": lib.Linear(2, 2, bias=False)})
            self.nothing = None
            self.head = lib.Linear(4, 7, bias=False)
            self.head.weight = self.embedding.weight
            self.again = self.head

    return Model()


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


LISTINGS: dict[str, Callable[[Any], Any]] = {
    "named_parameters": lambda m: names(m.named_parameters()),
    "named_parameters with tied ones": lambda m: names(m.named_parameters(remove_duplicate=False)),
    "named_parameters with a prefix": lambda m: names(m.named_parameters("net")),
    "named_parameters of its own": lambda m: names(m.named_parameters(recurse=False)),
    "parameters": lambda m: [tuple(p.shape) for p in m.parameters()],
    "named_buffers": lambda m: names(m.named_buffers()),
    "buffers": lambda m: [tuple(b.shape) for b in m.buffers()],
    "named_children": lambda m: names(m.named_children()),
    "children": lambda m: [type(child).__name__ for child in m.children()],
    "named_modules": lambda m: names(m.named_modules()),
    "named_modules with repeated ones": lambda m: names(m.named_modules(remove_duplicate=False)),
    "modules": lambda m: [type(module).__name__ for module in m.modules()],
    "state_dict": lambda m: names_and_shapes(m.state_dict()),
    "repr": repr,
}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_what_belongs_to_a_module_is_listed_as_in_pytorch(listing: Callable[[Any], Any]) -> None:
    assert listing(model(nn)) == listing(model(torch.nn))


def test_apply_visits_the_modules_in_pytorchs_order() -> None:
    visited: dict[Any, list[str]] = {nn: [], torch.nn: []}
    for lib, seen in visited.items():
        whole = model(lib)
        assert whole.apply(lambda module, seen=seen: seen.append(type(module).__name__)) is whole
    assert visited[nn] == visited[torch.nn]


def test_a_subclass_need_not_call_the_constructor_of_module() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(2, 2)

    assert names(Plain().named_parameters()) == ["linear.weight", "linear.bias"]
    assert Plain().training


def test_a_module_without_a_forward_says_so() -> None:
    class Unfinished(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match=r"\[Unfinished\].*forward"):
        Unfinished()(1)


def test_a_module_within_itself_is_listed_once_and_refused_where_it_would_never_end() -> None:
    loop = nn.Sequential(nn.Linear(2, 2))
    loop.inner = nn.Sequential()
    loop.inner.add_module("outer", loop)
    assert names(loop.named_parameters()) == ["0.weight", "0.bias"]
    with pytest.raises(RuntimeError, match=r"'inner\.outer' lies within itself"):
        loop.state_dict()


# Plain containers


class Holder(nn.Module):
    def __init__(self, held: Any) -> None:
        self.first = nn.Linear(2, 2)
        self.held = held


@pytest.mark.parametrize(
    "held",
    [
        [nn.Linear(1, 1)],
        (nn.Linear(1, 1),),
        {"a": nn.Linear(1, 1)},
        {nn.Linear(1, 1)},
        [[1, {"deep": (nn.Parameter([1.0]),)}]],
        [nn.Buffer([1.0])],
    ],
    ids=["list", "tuple", "dict", "set", "nested", "buffer"],
)
def test_modules_or_parameters_in_a_plain_container_are_refused(held: Any) -> None:
    for use in (
        lambda m: list(m.parameters()),
        lambda m: m.state_dict(),
        lambda m: m.eval(),
        lambda m: nn.Sequential(m).zero_grad(),
    ):
        with pytest.raises(TypeError, match=r"Holder\.held is a .*ModuleList"):
            use(Holder(held))


def test_a_plain_container_may_list_what_attributes_hold() -> None:
    holder = Holder([1, "two", None])
    holder.held = [holder.first, holder.first.weight]
    assert names(holder.named_parameters()) == ["first.weight", "first.bias"]
    holder.held.append(holder.held)  # nor need it end
    assert len(list(holder.modules())) == 2


# Assignment


def test_a_parameter_is_replaced_by_parameters_alone() -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    with pytest.raises(TypeError, match=r"cannot assign Tensor as parameter 'weight'"):
        layer.weight = Tensor(np.ones((2, 2)))  # type: ignore[assignment]
    assert layer.weight is weight
    layer.weight = nn.Parameter(np.ones((2, 2)))
    layer.bias = None
    assert names(layer.named_parameters()) == ["weight"]


def test_a_child_is_replaced_by_modules_alone() -> None:
    block = nn.Sequential(nn.Tanh())
    with pytest.raises(TypeError, match=r"cannot assign int as child module '0'"):
        setattr(block, "0", 3)
    assert len(block) == 1
    setattr(block, "0", nn.ReLU())
    assert [type(child) for child in block] == [nn.ReLU]


def test_a_buffer_that_is_computed_anew_stays_one() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            self.mean = nn.Buffer(np.zeros(2), persistent=False)

    module = Mean()
    module.mean = module.mean * 0.5 + 1.0
    assert isinstance(module.mean, nn.Buffer) and not module.mean.persistent
    assert module.mean.tolist() == [1.0, 1.0] and list(module.buffers()) == [module.mean]


def test_a_change_of_a_buffer_is_noticed_by_the_graph_that_made_it() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            self.mean = nn.Buffer(np.zeros(2))

    module, x = Mean(), Tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    module.mean = y
    with no_grad():
        module.mean.zero_()
    with pytest.raises(RuntimeError, match=r"exp: .*modified by an inplace operation"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("name", "module", "error"),
    [
        ("a", 3, TypeError),
        ("a", None, TypeError),
        (3, nn.Tanh(), TypeError),
        ("", nn.Tanh(), KeyError),
        ("a.b", nn.Tanh(), KeyError),
        ("forward", nn.Tanh(), KeyError),
        ("training", nn.Tanh(), KeyError),
        ("weight", nn.Tanh(), KeyError),
    ],
)
def test_a_child_or_name_that_makes_no_sense_is_refused(
    name: Any, module: Any, error: type[Exception]
) -> None:
    layer = nn.Linear(1, 1)
    before = dict(vars(layer))
    with pytest.raises(error):
        layer.add_module(name, module)
    assert vars(layer) == before


def registered(lib: Any) -> Any:
    module = lib.Module()
    make = Tensor if lib is nn else torch.tensor
    module.register_buffer("kept", make([1.0]))
    module.register_buffer("passing", make([2.0]), persistent=False)
    module.register_buffer("no_buffer", None)
    module.register_parameter("weight", lib.Parameter(make([[3.0]])))
    module.register_parameter("no_parameter", None)
    return module


def test_members_that_are_registered_are_attributes() -> None:
    ours, theirs = registered(nn), registered(torch.nn)
    for listing in ("named_parameters", "named_buffers", "state_dict"):
        assert LISTINGS[listing](ours) == LISTINGS[listing](theirs)
    assert ours.no_buffer is None and ours.no_parameter is None
    buffer = nn.Buffer([1.0])
    ours.register_buffer("same", buffer)
    assert ours.same is buffer


@pytest.mark.parametrize(
    ("name", "error"), [("a.b", KeyError), ("", KeyError), ("weight", KeyError), ("eval", KeyError)]
)
def test_a_name_that_cannot_be_registered_is_refused(name: str, error: type[Exception]) -> None:
    module = registered(nn)
    before = dict(vars(module))
    for register in (
        lambda: module.register_buffer(name, [1.0]),
        lambda: module.register_parameter(name, None),
    ):
        with pytest.raises(error):
            register()
    with pytest.raises(TypeError, match="Tensor is not a Parameter or None"):
        module.register_parameter("fine", Tensor([1.0]))
    assert vars(module) == before


# Labels


def test_parameters_get_their_names_for_labels() -> None:
    whole = model(nn)
    list(whole.blocks[1].parameters())
    assert whole.blocks[1].linear.weight.label == "linear.weight"
    list(whole.parameters())
    assert [p.label for p in whole.parameters()] == names(whole.named_parameters())
    list(whole.blocks.parameters())  # a part names nothing that the whole has named
    assert whole.blocks[1].linear.weight.label == "blocks.1.linear.weight"


def test_a_label_that_was_chosen_is_kept() -> None:
    layer = nn.Linear(1, 1)
    layer.weight.label = "W"
    assert [p.label for p in nn.Sequential(layer).parameters()] == ["W", "0.bias"]


# Modes


def test_train_and_eval_reach_every_module() -> None:
    whole = model(nn)
    assert all(module.training for module in whole.modules())
    assert whole.eval() is whole
    assert not any(module.training for module in whole.modules())
    whole.blocks[0].train()
    assert [block.dropout.training for block in whole.blocks] == [True, False]
    assert whole.train(True) is whole
    assert all(module.training for module in whole.modules())


def test_the_mode_is_a_bool() -> None:
    layer = nn.Dropout()
    with pytest.raises(ValueError, match="training mode is expected to be boolean, got 1"):
        layer.train(1)  # type: ignore[arg-type]
    assert layer.training


def test_dropout_is_on_in_training_alone() -> None:
    x = Tensor(np.ones(100))
    layer = nn.Sequential(nn.Dropout(0.5))
    assert (layer(x).data == 0).any()
    assert layer.eval()(x) is x


def test_requires_grad_is_set_for_all_parameters() -> None:
    whole = model(nn)
    assert whole.requires_grad_(False) is whole
    assert not any(p.requires_grad for p in whole.parameters())
    assert all(p.requires_grad for p in whole.requires_grad_().parameters())


# Gradients


def test_zero_grad_drops_gradients() -> None:
    layer = nn.Linear(2, 1)
    layer(Tensor(np.ones((1, 2), np.float32))).sum().backward()
    kept = layer.weight.grad
    layer.zero_grad()
    assert layer.weight.grad is None
    assert kept is not None and kept.tolist() == [[1.0, 1.0]]


def test_zero_grad_can_set_to_zero_in_place() -> None:
    layer = nn.Linear(2, 1)
    layer(Tensor(np.ones((1, 2), np.float32))).sum().backward()
    kept = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert kept is not None and layer.weight.grad is kept and kept.tolist() == [[0.0, 0.0]]


def test_zero_grad_leaves_a_gradient_with_history_alone() -> None:
    layer = nn.Linear(2, 1, bias=False)
    (layer(Tensor(np.ones((1, 2), np.float32))) ** 3).sum().backward(create_graph=True)
    kept = layer.weight.grad
    assert kept is not None
    before = kept.tolist()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[0.0, 0.0]]
    assert kept.tolist() == before


# Tied weights


def test_a_tied_weight_has_one_name_as_a_parameter_and_two_in_the_state() -> None:
    def tied(lib: Any) -> Any:
        pair = lib.Sequential(lib.Linear(3, 3), lib.Tanh(), lib.Linear(3, 3))
        pair[2].weight = pair[0].weight
        return pair

    ours, theirs = tied(nn).double(), tied(torch.nn).double()
    assert names(ours.named_parameters()) == ["0.weight", "0.bias", "2.bias"]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    assert ours[0].weight is ours[2].weight


def test_a_deep_copy_is_tied_in_itself_and_shares_nothing() -> None:
    whole = model(nn)
    twin = copy.deepcopy(whole)
    assert twin.head.weight is twin.embedding.weight is not whole.embedding.weight
    assert twin.cache.persistent is False and list(twin.state_dict()) == list(whole.state_dict())
    for (name, one), (_, other) in zip(
        whole.named_parameters(), twin.named_parameters(), strict=True
    ):
        assert isinstance(other, nn.Parameter) and other.requires_grad
        assert np.array_equal(one.data, other.data), name
        assert not np.shares_memory(one.data, other.data)


# Dtypes


@pytest.mark.parametrize("name", ["half", "double", "float"])
def test_conversion_reaches_parameters_gradients_and_buffers(name: str) -> None:
    whole = model(nn)
    whole.steps = nn.Buffer([3, 4])
    whole.scale.grad = Tensor([1.0, 2.0, 3.0])
    weight = whole.head.weight
    assert getattr(whole, name)() is whole
    wanted = {"half": tensor.float16, "double": tensor.float64, "float": tensor.float32}[name]
    assert {p.dtype for p in whole.parameters()} == {wanted}
    assert whole.mean.dtype == wanted and whole.steps.dtype == tensor.int64
    assert whole.scale.grad.dtype == wanted and whole.scale.grad.tolist() == [1.0, 2.0, 3.0]
    assert whole.head.weight is weight is whole.embedding.weight


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "nonsense"])
def test_conversion_to_what_cannot_be_trained_is_refused(dtype: str) -> None:
    layer = nn.Linear(1, 1)
    with pytest.raises(TypeError):
        layer.to(dtype)
    assert layer.weight.dtype == tensor.float32


# State


def test_a_state_dict_is_a_snapshot() -> None:
    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    before = state["weight"].tolist()
    assert not state["weight"].requires_grad and type(state["weight"]) is Tensor
    with tensor.no_grad():
        layer.weight.fill_(7.0)
    assert state["weight"].tolist() == before


def test_state_goes_round_to_the_bit_and_stays_in_place() -> None:
    whole, other = model(nn), model(nn)
    memory = {name: p.data for name, p in other.named_parameters()}
    assert other.load_state_dict(whole.state_dict()) == ([], [])
    for name, p in other.named_parameters():
        assert p.data is memory[name]
    ours, theirs = whole.state_dict(), other.state_dict()
    assert all(np.array_equal(ours[name].data, theirs[name].data) for name in ours)


def test_arrays_and_other_dtypes_can_be_loaded() -> None:
    layer = nn.Linear(2, 1)
    fortran = np.asfortranarray(np.array([[1.0, 2.0]]))
    layer.load_state_dict({"weight": fortran, "bias": np.array([3], dtype=np.int64)})
    assert layer.weight.dtype == tensor.float32
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([[1.0, 2.0]], [3.0])  # type: ignore[union-attr]


def test_a_graph_recorded_before_loading_is_stale() -> None:
    layer = nn.Linear(2, 1)
    loss = layer(Tensor(np.ones((1, 2), np.float32), requires_grad=True)).sum()
    layer.load_state_dict(layer.state_dict())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


BAD_STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], list[str]]] = {
    "missing": (lambda s: s.pop("0.weight"), ['Missing key(s) in state_dict: "0.weight"']),
    "unexpected": (lambda s: s.update(extra=1), ['Unexpected key(s) in state_dict: "extra"']),
    "shape": (
        lambda s: s.update({"0.weight": np.ones((3, 2))}),
        ["size mismatch for 0.weight", "(3, 2)", "(2, 3)"],
    ),
    "dtype": (
        lambda s: s.update({"0.weight": np.array([["a"] * 3] * 2)}),
        ["0.weight: cannot hold dtype <U1"],
    ),
    "float for an integer": (
        lambda s: s.update({"steps": np.array(1.5)}),
        ["dtype mismatch for steps: float64 cannot be stored in int64"],
    ),
    "all at once": (
        lambda s: (s.pop("0.weight"), s.pop("2.bias"), s.update({"x": 1, "2.weight": 1.0})),
        ['"0.weight", "2.bias"', '"x"', "size mismatch for 2.weight"],
    ),
}


def small() -> nn.Sequential:
    whole = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))
    whole.steps = nn.Buffer(np.array(5))
    return whole


@pytest.mark.parametrize(("spoil", "words"), BAD_STATES.values(), ids=BAD_STATES)
def test_a_state_that_does_not_fit_is_refused_whole(
    spoil: Callable[[dict[str, Any]], Any], words: list[str]
) -> None:
    whole, state = small(), small().state_dict()
    before = whole.state_dict()
    versions = [p.version for p in whole.parameters()]
    spoil(state)
    with pytest.raises(
        RuntimeError, match=r"^Error\(s\) in loading state_dict for Sequential:"
    ) as e:
        whole.load_state_dict(state)
    for word in words:
        assert word in str(e.value)
    after = whole.state_dict()
    assert all(np.array_equal(before[name].data, after[name].data) for name in before)
    assert [p.version for p in whole.parameters()] == versions


def test_the_names_in_the_error_are_pytorchs() -> None:
    ours, theirs = nn.Linear(3, 2), torch.nn.Linear(3, 2)
    with pytest.raises(RuntimeError) as mine:
        ours.load_state_dict({"weight": np.ones((3, 2)), "x": np.ones(1)})
    with pytest.raises(RuntimeError) as other:
        theirs.load_state_dict({"weight": torch.ones(3, 2), "x": torch.ones(1)})
    for line in str(other.value).replace("torch.Size([3, 2])", "").split("\n")[:3]:
        assert line.strip() in str(mine.value)


def test_read_only_memory_is_noticed_before_anything_is_copied() -> None:
    layer = nn.Linear(2, 2)
    assert layer.bias is not None
    layer.bias.data.setflags(write=False)
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError, match="bias in current model is read-only"):
        layer.load_state_dict({"weight": np.ones((2, 2)), "bias": np.ones(2)})
    assert layer.weight.tolist() == before


def test_without_strictness_names_may_differ_but_shapes_may_not() -> None:
    layer = nn.Linear(2, 1)
    state = {"weight": np.array([[1.0, 2.0]]), "other": np.ones(1)}
    found = layer.load_state_dict(state, strict=False)
    assert found == (["bias"], ["other"]) and found.missing_keys == ["bias"]
    assert layer.weight.tolist() == [[1.0, 2.0]]
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        layer.load_state_dict({"weight": np.ones(3)}, strict=False)


@pytest.mark.parametrize("bad", [None, [("weight", 1)], 3])
def test_a_state_that_is_no_mapping_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        nn.Linear(1, 1).load_state_dict(bad)


def test_any_mapping_will_do() -> None:
    class Lazy(Mapping[str, np.ndarray]):
        def __getitem__(self, key: str) -> np.ndarray:
            return {"weight": np.ones((1, 1)), "bias": np.ones(1)}[key]

        def __iter__(self) -> Any:
            return iter(["weight", "bias"])

        def __len__(self) -> int:
            return 2

    layer = nn.Linear(1, 1)
    layer.load_state_dict(Lazy())
    assert layer.weight.tolist() == [[1.0]]


# Text


def test_extra_text_of_several_lines_and_children_is_set_as_in_pytorch() -> None:
    def talkative(lib: Any) -> Any:
        class Talkative(lib.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.inner = lib.Sequential(lib.ReLU(), lib.ModuleList([lib.Tanh()] * 3))

            def extra_repr(self) -> str:
                return "one\ntwo"

        return Talkative()

    assert repr(talkative(nn)) == repr(talkative(torch.nn))
