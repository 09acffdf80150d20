"""Exercises of lesson 11: programs as data.

A program is a list of instructions (name, op, inputs): the name of the result, the op, and the
names of its operands. Every name is given once, and before it is used. For x * x - y:

    [("t0", "mul", ("x", "x")), ("t1", "sub", ("t0", "y"))]
"""

Instruction = tuple[str, str, tuple[str, ...]]


def run(program: list[Instruction], arguments: dict[str, float]) -> dict[str, float]:
    """Return the values of all names: the arguments, and the result of every instruction.

    The ops are "add", "sub", "mul" and "neg". The arguments' dict stays as it is.
    """
    raise NotImplementedError


def needed(program: list[Instruction], outputs: list[str]) -> list[Instruction]:
    """Return the instructions that the outputs depend on, in their order.

    What is used only by instructions that are left out is left out, too.
    """
    raise NotImplementedError


def last_uses(program: list[Instruction], outputs: list[str]) -> dict[str, int]:
    """Return, for the result of every instruction, the place after which nobody reads it.

    That is the place in the program, from 0, of the last instruction that has it as an operand.
    An output is wanted after the end: its place is len(program). A result that nobody reads has
    the place of its own instruction.
    """
    raise NotImplementedError
