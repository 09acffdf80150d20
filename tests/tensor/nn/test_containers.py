"""Sequential, ModuleList and ModuleDict against PyTorch's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensor import Tensor, nn

# Each builds a container and does something to it; the result is compared as text.
SCRIPTS: dict[str, Callable[[Any], Any]] = {}


def script(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCRIPTS[function.__name__] = function
    return function


def chain(lib: Any, kind: str = "Sequential") -> Any:
    modules = [lib.Linear(2, 3), lib.ReLU(), lib.Linear(3, 4), lib.Tanh()]
    return getattr(lib, kind)(*modules) if kind == "Sequential" else getattr(lib, kind)(modules)


def named(lib: Any) -> Any:
    return lib.Sequential(OrderedDict(a=lib.Tanh(), b=lib.ReLU(), c=lib.Sigmoid()))


@script
def index(lib: Any) -> Any:
    return [(chain(lib, kind)[i]) for kind in ("Sequential", "ModuleList") for i in (0, 2, -1)]


@script
def cut(lib: Any) -> Any:
    return [
        chain(lib, kind)[part]
        for kind in ("Sequential", "ModuleList")
        for part in (slice(1, 3), slice(None, None, -2), slice(9, None))
    ]


@script
def cut_names(lib: Any) -> Any:
    return named(lib)[1:]


@script
def replace(lib: Any) -> Any:
    results = [chain(lib), chain(lib, "ModuleList"), named(lib)]
    for result in results:
        result[1] = lib.GELU()
        result[-1] = lib.Identity()
    return results


@script
def remove(lib: Any) -> Any:
    results = [chain(lib), chain(lib, "ModuleList"), named(lib)]
    for result in results:
        del result[1]
    return results


@script
def remove_several(lib: Any) -> Any:
    results = [chain(lib), chain(lib, "ModuleList")]
    for result in results:
        del result[1:3]
    return results


@script
def grow(lib: Any) -> Any:
    results = [chain(lib), chain(lib, "ModuleList"), lib.Sequential(), lib.ModuleList()]
    for result in results:
        assert result.append(lib.GELU()) is result
        assert result.extend([lib.Identity(), lib.Flatten()]) is result
        result.insert(1, lib.Sigmoid())
    return results, [len(result) for result in results]


@script
def walk(lib: Any) -> Any:
    return [list(chain(lib, kind)) for kind in ("Sequential", "ModuleList")]


@script
def equal_neighbours(lib: Any) -> Any:
    return lib.ModuleList([lib.ReLU(), lib.ReLU(), lib.Sequential(lib.Tanh()), lib.ReLU()])


@script
def lookup(lib: Any) -> Any:
    table = lib.ModuleDict({"x": lib.Tanh(), "y": lib.ReLU()})
    table["z"] = lib.Linear(1, 2)
    table["x"] = lib.Sigmoid()
    del table["y"]
    table.update({"w": lib.Flatten()})
    return (
        table,
        list(table),
        list(table.keys()),
        list(table.values()),
        [list(pair) for pair in table.items()],
        len(table),
        "x" in table,
        "y" in table,
        3 in table,
        table["z"],
        list(table.state_dict()),
    )


@script
def of_nothing(lib: Any) -> Any:
    return (
        lib.Sequential(),
        lib.ModuleList(),
        lib.ModuleDict(),
        lib.ModuleList([]),
        len(lib.Sequential()),
    )


def parameters(lib: Any) -> Any:
    make = Tensor if lib is nn else torch.tensor
    return lib.ParameterList([lib.Parameter(make([1.0])), make([[2.0, 3.0]]), make([[4.0]])])


@script
def list_of_parameters(lib: Any) -> Any:
    held = parameters(lib)
    held.append(lib.Parameter(held[0].detach() * 5.0))
    held[1] = lib.Parameter(held[1].detach() + 1.0)
    held.extend([lib.Parameter(held[-2].detach())])
    return (
        [p.tolist() for p in held],
        [p.tolist() for p in held[1:3]],
        [p.requires_grad for p in held],
        len(held),
        len(lib.ParameterList()),
        [name for name, _ in held.named_parameters()],
        list(lib.Sequential(held).state_dict()),
        repr(held).replace("torch.", ""),  # dtypes have other names here
        repr(held[:1]).replace("torch.", ""),
    )


def test_a_list_of_parameters_refuses_what_it_cannot_hold() -> None:
    held = parameters(nn)
    with pytest.raises(TypeError, match="ParameterList: float is not a Tensor"):
        held.append(1.0)
    for use in (lambda: held[3], lambda: held.__setitem__(-4, held[0])):
        with pytest.raises(IndexError, match="out of range for ParameterList of 3"):
            use()
    assert held[:2][1] is held[1] is list(held)[1] and len(held) == 3
    with pytest.raises(NotImplementedError, match="forward"):
        held(1)


@pytest.mark.parametrize("run", SCRIPTS.values(), ids=SCRIPTS)
def test_containers_do_as_pytorchs(run: Callable[[Any], Any]) -> None:
    assert repr(run(nn)) == repr(run(torch.nn))


@pytest.mark.parametrize("run", [index, cut, cut_names, walk], ids=lambda run: run.__name__)
def test_parts_share_their_modules(run: Callable[[Any], Any]) -> None:
    whole = chain(nn)
    assert whole[1:3][1] is whole[2] is list(whole)[2]
    listed = nn.ModuleList(whole)
    assert listed[1:][1] is whole[2]


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
@pytest.mark.parametrize("position", [4, -5])
def test_an_index_out_of_range_is_refused(kind: str, position: int) -> None:
    container = chain(nn, kind)
    with pytest.raises(IndexError, match=f"index {position} is out of range for {kind} of 4"):
        container[position]
    with pytest.raises(IndexError):
        container[position] = nn.ReLU()
    with pytest.raises(IndexError):
        del container[position]
    with pytest.raises(TypeError, match=f"^{kind}: an index must be an integer or a slice"):
        container[str(position)]
    assert len(container) == 4


@pytest.mark.parametrize(
    "make",
    [
        nn.Sequential,
        lambda bad: nn.Sequential(nn.ReLU(), bad),
        lambda bad: nn.ModuleList([bad]),
        lambda bad: nn.ModuleDict({"a": bad}),
        lambda bad: nn.ModuleList().append(bad),
    ],
    ids=["sequential", "second", "list", "dict", "append"],
)
@pytest.mark.parametrize("bad", [3, None, "relu", nn.ReLU, [nn.ReLU()]], ids=str)
def test_what_is_no_module_is_refused(make: Callable[[Any], Any], bad: Any) -> None:
    with pytest.raises(TypeError, match="is not a Module"):
        make(bad)


def test_an_ordered_dict_is_the_only_argument() -> None:
    with pytest.raises(TypeError, match="OrderedDict must be the only argument"):
        nn.Sequential(nn.ReLU(), OrderedDict(a=nn.Tanh()))


@pytest.mark.parametrize("key", ["keys", "forward", "a.b", "", "training"])
def test_a_key_that_would_hide_something_is_refused(key: str) -> None:
    table = nn.ModuleDict()
    with pytest.raises(KeyError):
        table[key] = nn.ReLU()
    assert len(table) == 0


def test_a_missing_key_is_a_key_error() -> None:
    table = nn.ModuleDict({"a": nn.ReLU()})
    for use in (lambda: table["b"], lambda: table["training"], lambda: table.__delitem__("b")):
        with pytest.raises(KeyError):
            use()
    assert list(table) == ["a"]


@pytest.mark.parametrize("container", [nn.ModuleList(), nn.ModuleDict()], ids=repr)
def test_lists_and_dicts_cannot_be_called(container: nn.Module) -> None:
    with pytest.raises(NotImplementedError, match="forward"):
        container(1)
