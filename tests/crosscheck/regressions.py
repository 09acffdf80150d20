"""Small programs that once told engines apart, or a checker from what it should be.

A failure found by ``make prove`` or by the everyday suite is shrunk and printed in this form: add
it here, under the name of what it shows.
"""

from __future__ import annotations

from typing import Final

from tests.crosscheck.programs import Leaf, Program, Step

__all__ = ["REGRESSIONS"]

REGRESSIONS: Final[dict[str, Program]] = {
    # The second derivatives of different elements are 0 by cancellation: bounded all the same.
    "a variance's mixed second derivatives cancel": Program(
        leaves=(Leaf((3, 2), (1.0,) * 6),),
        steps=(Step("var", (0,), {"dim": None, "correction": 1, "keepdim": False}),),
        outputs=(1,),
        seed=2963,
    ),
    # What no gradient flows to is rounded too.
    "a constant that was computed is as inexact as any result": Program(
        leaves=(Leaf((1, 2), (-2.8125, 2.75), grad=False), Leaf((2,), (1.0, 1.0))),
        steps=(Step("log_softmax", (0,), {"dim": 1}), Step("mul", (2, 1))),
        outputs=(3,),
        seed=2696,
    ),
    "what is detached is as inexact as what it was detached from": Program(
        leaves=(Leaf((2,), (-2.8125, 2.75)),),
        steps=(
            Step("log_softmax", (0,), {"dim": 0}),
            Step("detach", (1,)),
            Step("mul", (0, 2)),
        ),
        outputs=(3,),
        seed=1,
    ),
    # PyTorch gives a gradient that has a shape and no memory.
    "a gradient that is zero everywhere": Program(
        leaves=(Leaf((2,), (0.5, -1.0)),),
        steps=(Step("sign", (0,)), Step("add", (1, 0))),
        outputs=(1, 2),
        seed=2,
    ),
    "an element that is read several times": Program(
        leaves=(Leaf((3,), (1.0, 2.125, -1.0625)),),
        steps=(
            Step("getitem", (0,), {"index": (None, [1, -1, -1])}),
            Step("var", (1,), {"dim": None, "correction": 1, "keepdim": False}),
            Step("log1p", (2,)),
        ),
        outputs=(3,),
        seed=3486,
    ),
    "ties share the gradient of an extreme over dimensions": Program(
        leaves=(Leaf((2, 3), (1.0, 1.0, 0.0, 1.0, -1.0, 1.0)),),
        steps=(
            Step("amax", (0,), {"dim": 1, "keepdim": True}),
            Step("mul", (0, 1)),
            Step("max", (2,), {"dim": 0, "keepdim": False}),
        ),
        outputs=(2, 3),
        seed=4,
    ),
    # Columns of windows of one element are the plane itself: they must be a copy all the same.
    "what was read before a change in place stays": Program(
        leaves=(Leaf((1, 1, 2, 2), (1.0, -1.0, 0.5, 2.0)),),
        steps=(
            Step("mul", (0, 0)),
            Step("im2col", (1,), {"kernel_size": (1, 1), "padding": 0, "stride": 1}),
            Step("mul_", (1, 1), {"copy": False}),
        ),
        outputs=(2, 3),
        seed=5,
    ),
    "a change in place of a view of a number that holds no element": Program(
        leaves=(Leaf((3,), (1.0, -0.5, 1.5)), Leaf((0,), ())),
        steps=(
            Step("sum", (0,), {"dim": None, "keepdim": False}),
            Step("reshape", (2,), {"shape": (1, 1)}),
            Step("diagonal", (3,), {"offset": 1, "dim1": 0, "dim2": 1}),
            Step("div_", (4, 1), {"copy": False}),
        ),
        outputs=(2, 5),
        seed=6,
    ),
    # PyTorch has no slices that run backwards, and cannot take part.
    "a change in place shows in a slice that runs backwards": Program(
        leaves=(Leaf((2,), (1.0, 2.0)),),
        steps=(
            Step("leaky_relu", (0,), {"negative_slope": 0.25}),
            Step("getitem", (1,), {"index": slice(None, None, -1)}),
            Step("div_", (1, 0), {"copy": False}),
        ),
        outputs=(2, 3),
        seed=7,
    ),
    # What PyTorch's group norm, hooks and oneDNN's gelu get wrong must not count as ours.
    "a group norm with a bias alone": Program(
        leaves=(Leaf((1, 2, 2), (1.0,) * 4, grad=False), Leaf((2,), (1.0, 1.0))),
        steps=(
            Step("group_norm", (0, None, 1), {"num_groups": 1, "eps": 0.125}),
            Step("abs", (2,)),
        ),
        outputs=(3,),
        seed=8,
    ),
    "a hook in front of a convolution whose second derivative is none": Program(
        leaves=(Leaf((1,), (-2.875,)), Leaf((1, 1, 1, 1), (-1.0625,), grad=False)),
        steps=(
            Step("hook", (0,), {"factor": 0.5}),
            Step("reshape", (2,), {"shape": (1, 1, 1)}),
            Step("conv2d", (3, 1, None), {"stride": 1, "padding": (0, 1), "dilation": 1}),
        ),
        outputs=(4,),
        seed=9,
    ),
    "gelu with a gradient in unusual strides": Program(
        leaves=(Leaf((3,), (2.5, 1.8125, -2.3125)),),
        steps=(
            Step("repeat", (0,), {"repeats": (2, 1)}),
            Step("gelu", (1,)),
            Step("unfold_adjoint", (2,), {"shape": (5,), "dim": 0, "size": 3, "step": 2}),
        ),
        outputs=(3,),
        seed=10,
    ),
    "a hook on a number whose cumulative product is taken": Program(
        leaves=(Leaf((), (2.8125,)),),
        steps=(
            Step("hook", (0,), {"factor": 0.5}),
            Step("abs", (1,)),
            Step("cumprod", (2,), {"dim": 0}),
        ),
        outputs=(3,),
        seed=12,
    ),
    "a binary cross-entropy of a certain probability that is overwritten": Program(
        leaves=(
            Leaf((), (-2.75,)),
            Leaf((), (3.609375,), grad=False),
            Leaf((), (3.75,), grad=False),
            Leaf((2,), (1.0, 1.0), grad=False),
        ),
        steps=(
            Step("repeat", (0,), {"repeats": (2,)}),
            Step("add", (4, 1), bridge=True),
            Step("add", (4, 2), bridge=True),
            Step("binary_cross_entropy", (6, 5)),
            Step("put_", (7, 3), {"copy": True, "index": Ellipsis}),
        ),
        outputs=(8,),
        seed=1112530,
    ),
    "a binary cross-entropy of a certain probability by its target": Program(
        leaves=(Leaf((), (1.0,), grad=False), Leaf((), (0.0,))),
        steps=(Step("binary_cross_entropy", (0, 1)),),
        outputs=(2,),
        seed=1137435,
    ),
}
