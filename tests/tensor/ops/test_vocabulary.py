"""The vocabulary against the engine: nothing missing, and every signature the same."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor
from micro.vocab import OPERATORS, REQUIRED, VOCAB, OpSpec
from tensor import Tensor, methods
from tensor.dispatch import COMPOSITES, raw, recording
from tensor.dispatch import OPS as PRIMITIVES
from tensor.graph import Node
from tensor.verify.calls import joined
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import (
    COMPOSITE,
    PRIMITIVE,
    call,
    leaves,
    results,
    torch_leaves,
    torch_results,
)
from tests.tensor.ops.table import Case

# Every op with what implements it.
OPS = {**PRIMITIVES, **COMPOSITES}


def faults(
    vocabulary: Mapping[str, OpSpec], ops: Mapping[str, Any], cases: Mapping[str, Case]
) -> list[str]:
    """What is missing of the ops of a vocabulary in an engine and in the table of cases."""
    found = [f"{name} is not in the vocabulary" for name in {*ops, *cases} - {*vocabulary}]
    for name, spec in vocabulary.items():
        if name not in ops:
            found.append(f"{name} has no kernel")
            continue
        if name not in cases:
            found.append(f"{name} has no case")
            continue
        if spec.composite is (name in PRIMITIVES):
            found.append(f"{name} is {'not ' * (not spec.composite)}made of other ops")
        case = cases[name]
        operands = [operand.lstrip("*") for operand in spec.inputs]
        real = [
            operand
            for operand, domain in zip(operands, spec.domain, strict=True)
            if spec.differentiable and not spec.composite and domain not in ("bool", "index")
        ]
        found += [f"{name} has no rule for {o}" for o in real if o not in ops[name].rules]
        found += [f"{name} has a rule for {o}" for o in ops[name].rules if o not in real]
        found += [f"{name} has no samples"] * (not case.samples)
        found += [f"{name} refuses nothing"] * (not case.bad)
        found += [f"{name} has kinks but no points"] * (bool(spec.kinks) and not case.points)
        if not any(a is not None and np.ndim(a) == 0 for s in case.samples for a in s.operands):
            found += [f"{name} has no 0-d sample"] * (name not in WITHOUT_0D)
        if not any(np.size(a) == 0 for s in case.samples for a in s.operands):
            found.append(f"{name} has no sample of size 0")
    return found


# Their operands have at least one dimension.
WITHOUT_0D = {
    "std",
    *("matmul", "linear", "cat", "layer_norm", "attention_weights", "scaled_dot_product_attention"),
    *("rms_norm", "group_norm", "batch_moments", "batch_norm"),
    *("conv2d", "conv2d_input_adjoint", "conv2d_weight_adjoint", "max_pool2d"),
    *("max_pool2d_indices", "avg_pool2d", "avg_pool2d_adjoint", "im2col", "col2im"),
    *("split", "chunk", "unbind"),
    *("outer", "tril", "triu", "diagonal", "diagonal_adjoint", "unfold_adjoint"),
}


def test_every_op_has_a_kernel_rules_samples_and_bad_calls() -> None:
    assert faults(VOCAB, OPS, CASES) == []


def test_what_is_missing_is_found() -> None:
    def without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {k: v for k, v in mapping.items() if k != name}

    assert faults(VOCAB, without(OPS, "exp"), CASES) == ["exp has no kernel"]
    assert faults(VOCAB, OPS, without(CASES, "exp")) == ["exp has no case"]
    assert sorted(faults(without(VOCAB, "exp"), OPS, CASES)) == ["exp is not in the vocabulary"]

    exp = CASES["exp"]
    for changes, fault in (
        ({"samples": ()}, "exp has no samples"),
        ({"bad": ()}, "exp refuses nothing"),
        ({"samples": exp.samples[:1]}, "exp has no 0-d sample"),
        ({"samples": exp.samples[1:2]}, "exp has no sample of size 0"),
    ):
        fields = {"torch": exp.torch, "samples": exp.samples, "bad": exp.bad, **changes}
        assert fault in faults(VOCAB, OPS, {**CASES, "exp": Case(**fields)})
    bare = Case(CASES["abs"].torch, CASES["abs"].samples, CASES["abs"].bad)
    assert faults(VOCAB, OPS, {**CASES, "abs": bare}) == ["abs has kinks but no points"]


def test_an_op_that_is_made_of_others_is_no_node_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*COMPOSITES] == COMPOSITE and [*PRIMITIVES] != COMPOSITE
    monkeypatch.setitem(PRIMITIVES, "tile", COMPOSITES["tile"])
    assert faults(VOCAB, OPS, CASES) == ["tile is made of other ops"]
    monkeypatch.delitem(PRIMITIVES, "exp")
    assert "exp is not made of other ops" in faults(VOCAB, OPS, CASES)


def test_a_rule_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPS["mul"].rules, "b")
    assert faults(VOCAB, OPS, CASES) == ["mul has no rule for b"]
    monkeypatch.setitem(OPS["eq"].rules, "a", OPS["add"].rules["a"])
    assert "eq has a rule for a" in faults(VOCAB, OPS, CASES)


# Signatures


def wanted_parameters(spec: OpSpec) -> list[tuple[str, Any]]:
    """The names of operands and attributes in order, with their defaults."""
    empty = inspect.Parameter.empty
    attrs = [(k, empty if v is REQUIRED else v) for k, v in spec.attrs.items()]
    after = any(default is empty for _, default in attrs)  # an attribute without a default follows
    return [
        *(
            (n.lstrip("*"), None if n in spec.optional and not after else empty)
            for n in spec.inputs
        ),
        *attrs,
    ]


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", VOCAB)
def test_kernel_and_public_op_have_the_vocabulary_s_signature(name: str) -> None:
    wanted = wanted_parameters(VOCAB[name])
    assert parameters(OPS[name].kernel) == wanted
    assert parameters(getattr(recording, name)) == wanted


@pytest.mark.parametrize("name", VOCAB)
def test_an_op_is_the_same_in_every_namespace(name: str) -> None:
    assert getattr(raw, name, None) is (None if VOCAB[name].composite else OPS[name].kernel)
    assert getattr(tensor.ops, name) is getattr(recording, name)
    public = getattr(tensor, name, None)
    in_another_form = {"einsum", "max", "min", "dropout", "scaled_dot_product_attention"}
    in_another_form |= {"gather", "scatter", "index_select", "nonzero"}
    in_another_form |= {"scatter_add", "index_add", "index_put", "tile"}
    if name not in in_another_form and not name.endswith("_adjoint"):
        assert public is getattr(recording, name)


@pytest.mark.parametrize("name", VOCAB)
def test_every_op_has_a_symbol_and_a_docstring(name: str) -> None:
    spec = VOCAB[name]
    assert spec.name == name and spec.symbol
    assert len(spec.domain) == len(spec.inputs)
    assert set(spec.optional) <= set(spec.inputs)
    document = inspect.getdoc(getattr(recording, name)) or ""
    assert document.startswith("Return ") and document.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", VOCAB)
def test_every_argument_can_be_given_by_name(name: str) -> None:
    spec, sample = VOCAB[name], CASES[name].samples[0]
    operands = leaves(name, sample)
    by_name: Any = {"tensors": operands}
    if not spec.variadic:
        by_name = dict(zip(spec.inputs, operands, strict=True))
    result = joined(getattr(recording, name)(**by_name, **sample.attrs))
    np.testing.assert_array_equal(result.data, call(name, operands, sample.attrs).data)


def declared_methods() -> dict[str, list[tuple[str, Any]]]:
    """The methods that methods.py declares: their parameters after self, with defaults."""
    tree = ast.parse(Path(methods.__file__).read_text("utf-8"))
    (mixin,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    found = {}
    for node in ast.walk(mixin):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            defaults = [ast.literal_eval(value) for value in node.args.defaults]
            padding = [inspect.Parameter.empty] * (len(names) - len(defaults))
            found[node.name] = list(zip(names, [*padding, *defaults], strict=True))[1:]
    return found


def test_declared_methods_have_the_vocabulary_s_signatures() -> None:
    declared = declared_methods()
    operators = {name for name in declared if name.startswith("__")}
    assert operators <= set(OPERATORS)
    for name in set(declared) - operators:
        assert declared[name] == wanted_parameters(VOCAB[name])[1:], name
        assert getattr(Tensor, name) is getattr(recording, name), name


def test_every_method_is_declared() -> None:
    attached = {name for name in VOCAB if vars(Tensor).get(name) is getattr(recording, name)}
    assert attached == {name for name in declared_methods() if not name.startswith("__")}


# Results that carry no gradient


@pytest.mark.parametrize("name", [n for n in VOCAB if not VOCAB[n].differentiable])
def test_an_op_without_a_gradient_records_nothing(name: str) -> None:
    for sample in CASES[name].samples:
        operands = leaves(name, sample)
        for operand in operands:
            operand.requires_grad_(operand.dtype.kind == "f")
        out = call(name, operands, sample.attrs)
        assert not out.requires_grad and out.node is None
        assert out.dtype.kind in "bi"


@pytest.mark.parametrize("name", [n for n in PRIMITIVE if VOCAB[n].differentiable])
def test_an_op_with_a_gradient_records_just_its_name_operands_and_attributes(name: str) -> None:
    spec = VOCAB[name]
    for sample in CASES[name].samples:
        operands = leaves(name, sample)
        node = call(name, operands, sample.attrs).node
        assert node is not None and node.op == name
        assert set(node.attrs) == set(spec.attrs)
        assert len(node.inputs) == len(operands)
        for edge, operand in zip(node.inputs, operands, strict=True):
            if operand is not None and operand.requires_grad:
                assert edge is operand


def test_every_op_of_several_elementwise_operands_has_samples_that_broadcast() -> None:
    def unequal(name: str) -> bool:
        return any(len({np.shape(a) for a in s.operands}) > 1 for s in CASES[name].samples)

    elementwise = [
        name for name, spec in VOCAB.items() if spec.scope == "both" and len(spec.inputs) > 1
    ]
    assert {"add", "pow", "where", "maximum", "lt"} <= set(elementwise)
    assert [name for name in elementwise if not unequal(name)] == []


# Ops that are made of others


@pytest.mark.parametrize("name", COMPOSITE)
def test_an_op_that_is_made_of_others_is_recorded_as_those(name: str) -> None:
    for sample in CASES[name].samples:
        operands = leaves(name, sample)
        out = results(name, operands, sample.attrs)
        stack = [x.node for x in (out if isinstance(out, tuple) else [out])]
        assert any(node is not None for node in stack), sample
        while stack:
            node = stack.pop()
            if isinstance(node, Node):
                assert node.op in PRIMITIVE, sample
                stack.extend(node.inputs)


@pytest.mark.parametrize("name", COMPOSITE)
def test_several_results_are_as_many_as_torchs_and_of_their_shapes_and_dtypes(name: str) -> None:
    for sample in (*CASES[name].samples, *CASES[name].points):
        ours = results(name, leaves(name, sample), sample.attrs)
        theirs = torch_results(name, torch_leaves(name, sample), sample.attrs)
        assert isinstance(ours, tuple) is isinstance(theirs, (tuple, list)), sample
        if isinstance(ours, tuple):
            assert len(ours) == len(theirs), sample
            for x, y in zip(ours, theirs, strict=True):
                assert (x.shape, x.requires_grad) == (tuple(y.shape), y.requires_grad), sample
                assert x.dtype == str(y.dtype).removeprefix("torch."), sample
