"""The cases and the known mistakes of lesson 11."""

from __future__ import annotations

from typing import Any

from classroom import Exercise, Mistake, case

from micro import Value

Instruction = tuple[str, str, tuple[str, ...]]
Program = list[Instruction]

ONE: Program = [("t0", "neg", ("x",))]
ORDER: Program = [("t0", "sub", ("x", "y"))]
SQUARE: Program = [("t0", "mul", ("x", "x")), ("t1", "sub", ("t0", "y"))]
UNUSED: Program = [("t0", "add", ("x", "y")), ("t1", "mul", ("x", "y"))]
DEAD_CHAIN: Program = [
    ("t0", "add", ("x", "y")),
    ("t1", "neg", ("t0",)),
    ("t2", "mul", ("x", "y")),
]
LONG: Program = [
    ("t0", "mul", ("x", "y")),
    ("t1", "add", ("t0", "x")),
    ("t2", "sub", ("t0", "t1")),
    ("t3", "neg", ("t1",)),
    ("t4", "mul", ("t2", "t0")),
]


# run


def engine_run(program: Program, arguments: dict[str, float]) -> dict[str, Any]:
    """On micro's Values."""
    values = {name: Value(number) for name, number in arguments.items()}
    for name, op, inputs in program:
        values[name] = getattr(values[inputs[0]], op)(*[values[x] for x in inputs[1:]])
    return {
        "values": {name: value.data for name, value in values.items()},
        "arguments afterwards": arguments,
    }


def run_plain(program: Program, arguments: dict[str, float]) -> dict[str, float]:
    return dict(engine_run(program, arguments)["values"])


def run_turned(program: Program, arguments: dict[str, float]) -> dict[str, float]:
    return run_plain([(n, op, inputs[::-1]) for n, op, inputs in program], arguments)


def run_into_arguments(program: Program, arguments: dict[str, float]) -> dict[str, float]:
    arguments.update(run_plain(program, arguments))
    return arguments


def run_results_only(program: Program, arguments: dict[str, float]) -> dict[str, float]:
    values = run_plain(program, arguments)
    return {name: values[name] for name, _, _ in program}


def run_last_only(program: Program, arguments: dict[str, float]) -> float:
    return run_plain(program, arguments)[program[-1][0]]


def run_neg_kept(program: Program, arguments: dict[str, float]) -> dict[str, float]:
    values = dict(arguments)
    for name, op, inputs in program:
        a = values[inputs[0]]
        b = values[inputs[-1]]
        values[name] = {"add": a + b, "sub": a - b, "mul": a * b, "neg": a}[op]
    return values


RUN = Exercise(
    "run",
    returns="a dict from names to numbers",
    truth=engine_run,
    view=lambda result, program, arguments: {
        "values": {str(name): value for name, value in result.items()},
        "arguments afterwards": arguments,
    },
    cases=(
        case([], {"x": 2.0}),
        case(ONE, {"x": 2.0}),
        case(ORDER, {"x": 2.0, "y": 5.0}),
        case(SQUARE, {"x": 3.0, "y": 1.0}),
        case(LONG, {"x": 2.0, "y": -0.5}),
    ),
    mistakes=(
        Mistake(
            "operands in the wrong order",
            run_turned,
            "x - y is not y - x. In which order are the operands listed?",
        ),
        Mistake(
            "the arguments' dict is written to",
            run_into_arguments,
            "values = arguments gives the same dict a second name (lesson 8).",
        ),
        Mistake(
            "the arguments left out",
            run_results_only,
            "all names were asked for, those of the arguments as well.",
        ),
        Mistake(
            "the last value alone",
            run_last_only,
            "a program can have several outputs: return everything that has a name.",
        ),
        Mistake(
            "neg without its sign",
            run_neg_kept,
            "what does neg do with its one operand?",
        ),
    ),
)


# needed


def exact_needed(program: Program, outputs: list[str]) -> Program:
    """Whatever changes no output when it is taken away is not needed: ask for each."""
    makers = {name: inputs for name, _, inputs in program}

    def reaches(target: str) -> bool:
        todo = list(outputs)
        while todo:
            name = todo.pop()
            if name == target:
                return True
            todo.extend(makers.get(name, ()))
        return False

    return [instruction for instruction in program if reaches(instruction[0])]


def rows(result: Any, *_: Any) -> Program:
    return [(name, op, tuple(inputs)) for name, op, inputs in result]


def used_by_anybody(program: Program, outputs: list[str]) -> Program:
    used = {x for _, _, inputs in program for x in inputs} | set(outputs)
    return [i for i in program if i[0] in used]


def direct_alone(program: Program, outputs: list[str]) -> Program:
    makers = {name: inputs for name, _, inputs in program}
    wanted = set(outputs) | {x for name in outputs for x in makers.get(name, ())}
    return [i for i in program if i[0] in wanted]


def outputs_lost(program: Program, outputs: list[str]) -> Program:
    return [i for i in exact_needed(program, outputs) if i[0] not in outputs]


NEEDED = Exercise(
    "needed",
    returns="a list of instructions (name, op, inputs)",
    truth=exact_needed,
    view=rows,
    cases=(
        case(ONE, ["t0"]),
        case(ONE, ["x"]),
        case(SQUARE, ["t1"]),
        case(UNUSED, ["t1"]),
        case(DEAD_CHAIN, ["t2"]),
        case(LONG, ["t4"]),
        case(LONG, ["t3", "t0"]),
    ),
    mistakes=(
        Mistake(
            "everything that anybody uses",
            used_by_anybody,
            "t0 is used, but by an instruction that nobody needs. From which end do you have to "
            "look?",
        ),
        Mistake(
            "the outputs and their operands alone",
            direct_alone,
            "operands have operands, too.",
        ),
        Mistake(
            "the wrong order",
            lambda program, outputs: exact_needed(program, outputs)[::-1],
            "every name has to be given before it is used. You have looked from the end; turn "
            "round what you found.",
        ),
        Mistake(
            "the outputs left out",
            outputs_lost,
            "an output is needed, even if no instruction reads it.",
        ),
        Mistake(
            "nothing left out",
            lambda program, outputs: program,
            "which instructions could be deleted without anybody noticing?",
        ),
    ),
)


# last_uses


def exact_last(program: Program, outputs: list[str]) -> dict[str, int]:
    return {
        name: len(program)
        if name in outputs
        else max([place, *(i for i, (_, _, inputs) in enumerate(program) if name in inputs)])
        for place, (name, _, _) in enumerate(program)
    }


def first_use(program: Program, outputs: list[str]) -> dict[str, int]:
    found = {}
    for place, (name, _, _) in enumerate(program):
        uses = [i for i, (_, _, inputs) in enumerate(program) if name in inputs]
        found[name] = len(program) if name in outputs else min(uses, default=place)
    return found


def unread_missing(program: Program, outputs: list[str]) -> dict[str, int]:
    read = {x for _, _, inputs in program for x in inputs} | set(outputs)
    return {name: i for name, i in exact_last(program, outputs).items() if name in read}


def with_arguments(program: Program, outputs: list[str]) -> dict[str, int]:
    names = {x: i for i, (_, _, inputs) in enumerate(program) for x in inputs}
    return names | exact_last(program, outputs)


LAST = Exercise(
    "last_uses",
    returns="a dict from names to ints",
    truth=exact_last,
    view=lambda result, *_: dict(sorted((str(k), int(v)) for k, v in result.items())),
    cases=(
        case(ONE, ["t0"]),
        case(ONE, []),
        case(SQUARE, ["t1"]),
        case(DEAD_CHAIN, ["t2"]),
        case(LONG, ["t4"]),
        case(LONG, ["t1"]),
    ),
    mistakes=(
        Mistake(
            "the first use",
            first_use,
            "who reads it after that would find another result in its place.",
        ),
        Mistake(
            "outputs given away",
            lambda program, outputs: exact_last(program, []),
            "somebody wants the outputs when the program has ended.",
        ),
        Mistake(
            "results that nobody reads left out",
            unread_missing,
            "they need memory all the same, for the moment in which they are made.",
        ),
        Mistake(
            "arguments among the results",
            with_arguments,
            "the memory of the arguments belongs to the caller and is not to be given away.",
        ),
        Mistake(
            "places counted from 1",
            lambda program, outputs: {k: v + 1 for k, v in exact_last(program, outputs).items()},
            "the first instruction has the place 0.",
        ),
    ),
)

EXERCISES = (RUN, NEEDED, LAST)
