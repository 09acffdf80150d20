"""Solutions of lesson 11."""

import operator

Instruction = tuple[str, str, tuple[str, ...]]


def run(program: list[Instruction], arguments: dict[str, float]) -> dict[str, float]:
    """A table of functions, and a dict that grows."""
    ops = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}
    values = dict(arguments)
    for name, op, inputs in program:
        values[name] = ops[op](*[values[x] for x in inputs])
    return values


def needed(program: list[Instruction], outputs: list[str]) -> list[Instruction]:
    """From the end: whoever is wanted makes its operands wanted."""
    wanted, kept = set(outputs), []
    for instruction in reversed(program):
        name, _, inputs = instruction
        if name in wanted:
            wanted.update(inputs)
            kept.append(instruction)
    return kept[::-1]


def last_uses(program: list[Instruction], outputs: list[str]) -> dict[str, int]:
    """Later uses overwrite earlier ones; here = is right."""
    places: dict[str, int] = {}
    for place, (name, _, inputs) in enumerate(program):
        places[name] = place
        places.update({x: place for x in inputs if x in places})
    return places | {x: len(program) for x in outputs if x in places}
