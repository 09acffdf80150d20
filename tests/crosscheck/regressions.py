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
}
