"""The cases and the known mistakes of lesson 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from classroom import Exercise, Mistake, case

import micro
from micro import Value
from micro.value import CONSTANT, topological

# Graphs, smallest first


def single() -> Value:
    return Value(2.0, label="x")


def triple() -> Value:
    y = 3 * single()
    y.label = "y"
    return y


def square() -> Value:
    x = Value(3.0, label="x")
    y = x * x
    y.label = "y"
    return y


def diamond() -> Value:
    y = triple()
    c = 2 * y + 5 * y
    c.label = "c"
    return c


def mirrored_diamond() -> Value:
    x = single()
    y = micro.sin(x)
    c = y * x - x / y
    y.label, c.label = "y", "c"
    return c


def used_before() -> Value:
    c = diamond()
    c.backward()
    c.backward()
    return c


def deep() -> Value:
    x = y = single()
    for _ in range(5_000):
        y = y + 1
    last = y - x
    last.label = "y"
    return last


def doubled() -> Value:
    y = Value(1.0, label="x")
    for _ in range(60):
        y = y + y
    y.label = "y"
    return y


GRAPHS: dict[str, Callable[[], Value]] = {
    "the single Value x": single,
    "y = 3 x": triple,
    "y = x * x, x = 3": square,
    "the diamond: x = 2, y = 3 x, c = 2 y + 5 y": diamond,
    "x = 2, y = sin(x), c = y * x - x / y": mirrored_diamond,
    "the diamond, on which two passes have been run": used_before,
    "a chain of 5,000 sums, less its x": deep,
    "x = x + x, sixty times": doubled,
}


def called(name: str) -> tuple[Any, ...]:
    return tuple(
        case(make(), text=f"{name}({_last(text)}), {text}") for text, make in GRAPHS.items()
    )


def _last(text: str) -> str:
    return "c" if "diamond" in text or "c =" in text else "x" if "single" in text else "y"


# order


def name(value: Value) -> str:
    return value.label or f"the {value.op} with data {value.data}"


def fault(listed: Any, y: Value) -> str:
    """What is wrong with a list of nodes, in words; how the right one looks, if nothing is."""
    listed = list(listed)
    if any(not isinstance(value, Value) for value in listed):
        raise TypeError("not all of them are Values")
    place: dict[Value, int] = {}
    for i, value in enumerate(listed):
        if value in place:
            return f"{name(value)} comes twice"
        place[value] = i
    below = topological(y)
    for value in below:
        if value not in place:
            return f"{name(value)} is missing"
    if len(listed) > len(below):
        extra = next(value for value in listed if value not in set(below))
        return f"{name(extra)} is in it, but y was not made of it"
    for value in below:
        for x in value.inputs:
            if place[x] < place[value]:
                return f"{name(x)} comes before {name(value)}, which uses it"
    return "each once, each before its inputs"


def order_when_met(y: Value) -> list[Value]:
    listed, todo, seen = [], [y], {y}
    while todo:
        node = todo.pop()
        listed.append(node)
        for x in node.inputs:
            if x not in seen:
                seen.add(x)
                todo.append(x)
    return listed


def order_along_every_way(y: Value) -> list[Value]:
    listed, todo = {}, [y]
    while todo:
        node = todo.pop(0)
        listed.pop(node, None)
        listed[node] = None  # where it is met last
        todo.extend(node.inputs)
    return list(listed)


def order_by_number(y: Value) -> list[Value]:
    """As ``if node not in listed``, which asks by ==, and in linear time."""
    return list({node.data: node for node in reversed(topological(y))}.values())[::-1]


def order_by_recursion(y: Value) -> list[Value]:
    listed: list[Value] = []
    seen = set()

    def visit(node: Value) -> None:
        if node not in seen:
            seen.add(node)
            for x in node.inputs:
                visit(x)
            listed.append(node)

    visit(y)
    return listed[::-1]


def order_turned_round(y: Value) -> list[Value]:
    return topological(y)[::-1]


def order_without_memory(y: Value) -> list[Value]:
    listed, todo = [], [y]
    while todo:
        node = todo.pop()
        listed.append(node)
        todo.extend(node.inputs)
    return listed


def order_without_y(y: Value) -> list[Value]:
    return topological(y)[1:]


def order_uses_counted_once(y: Value) -> list[Value]:
    """Counts each arrow, but crosses off one for each distinct input."""
    uses = dict.fromkeys(topological(y), 0)
    for node in uses:
        for x in node.inputs:
            uses[x] += 1
    listed, ready = [], [y]
    while ready:
        node = ready.pop()
        listed.append(node)
        for x in set(node.inputs):
            uses[x] -= 1
            if uses[x] == 0:
                ready.append(x)
    return listed


ORDER = Exercise(
    "order",
    returns="a list of Values",
    truth=lambda y: fault(topological(y), y),
    view=fault,
    cases=called("order"),
    mistakes=(
        Mistake(
            "the order in which they are met",
            order_when_met,
            "it keeps each Value once, but a Value that is met early and used again later comes "
            "before that later use. When is it safe to list one?",
        ),
        Mistake(
            "the other way round",
            order_turned_round,
            "every Value comes after its inputs. That is the order of the forward pass.",
        ),
        Mistake(
            "Values that come once for every way",
            order_without_memory,
            "how do you notice that you have been at a Value before?",
        ),
        Mistake(
            "every way walked to its end",
            order_along_every_way,
            "the result is right, but a Value is visited once for every way that leads to it, and "
            "sixty doublings have 2^60 of them. Each Value should be worked on once.",
        ),
        Mistake(
            "Values that are told apart by their numbers",
            order_by_number,
            "a == b asks whether two Values hold the same number, and so does `a in a_list`. Two "
            "Values can. Which collection asks whether it is the same one?",
        ),
        Mistake(
            "recursion",
            order_by_recursion,
            "the order is right, but a function that calls itself goes as deep as the graph, and "
            "Python does not. Keep the list of what is still to do yourself.",
        ),
        Mistake(
            "without the result itself",
            order_without_y,
            "y is the first of them.",
        ),
        Mistake(
            "uses and arrows counted differently",
            order_uses_counted_once,
            "x * x uses x twice. If two uses are counted, how many have to be crossed off?",
        ),
    ),
)


# backward


def labelled(y: Value) -> list[Value]:
    return [value for value in topological(y) if value.label]


def grads(result: Any, y: Value) -> dict[str, Any]:
    """The gradients of the Values that have names."""
    return {f"{value.label}.grad": value.grad for value in labelled(y)}


def engine_grads(y: Value) -> dict[str, Any]:
    values = labelled(y)
    found = micro.grad(y, values) if y.inputs else [Value(1.0)]
    return {f"{v.label}.grad": g.data for v, g in zip(values, found, strict=True)}


def backward_with(
    order: Callable[[Value], list[Value]] = topological,
    clear: bool = True,
    seed: float = 1.0,
    overwrite: bool = False,
    local_forgotten: bool = False,
    sign: float = 1.0,
    incoming_forgotten: bool = False,
) -> Callable[[Value], None]:
    """A backward pass, with what can go wrong as options."""

    def backward(y: Value) -> None:
        nodes = order(y)
        if clear:
            for node in nodes:
                node.grad = 0.0
        y.grad = seed
        for node in nodes:
            for x, local in zip(node.inputs, node.partials(), strict=True):
                if x.op == CONSTANT or local is None:
                    continue
                part = sign * (1.0 if local_forgotten else local)
                part *= 1.0 if incoming_forgotten else node.grad
                x.grad = part if overwrite else x.grad + part

    return backward


def backward_along_every_way(y: Value) -> None:
    for node in topological(y):
        node.grad = 0.0
    todo = [(y, 1.0)]
    while todo:
        node, part = todo.pop()
        node.grad += part
        for x, local in zip(node.inputs, node.partials(), strict=True):
            if local is not None:
                todo.append((x, part * local))


BACKWARD = Exercise(
    "backward",
    returns="nothing; it sets grad",
    truth=engine_grads,
    view=grads,
    cases=called("backward"),
    mistakes=(
        Mistake(
            "= for +=",
            backward_with(overwrite=True),
            "a Value that is used twice gets two parts. What becomes of the first when the second "
            "arrives?",
        ),
        Mistake(
            "the wrong order",
            backward_with(order=order_when_met),
            "some Value has passed its gradient on before it had all of it. Which Values have to "
            "be finished before it may?",
        ),
        Mistake(
            "a stale gradient",
            backward_with(clear=False),
            "right on a fresh graph, wrong on one that has been walked before. What does the sum "
            "of each Value start from?",
        ),
        Mistake(
            "recursion",
            backward_with(order=order_by_recursion),
            "the gradients are right; the graph is deeper than Python lets functions call "
            "themselves. Exercise 1 asks for the order without that.",
        ),
        Mistake(
            "every way walked to its end",
            backward_along_every_way,
            "right, but each Value is visited once for every way that leads to it. Let a Value "
            "wait until its sum is complete, and send that once.",
        ),
        Mistake(
            "nothing to start from",
            backward_with(seed=0.0),
            "everything is a multiple of d y / d y. What is that, and have you set it?",
        ),
        Mistake(
            "the local derivative left out",
            backward_with(local_forgotten=True),
            "the gradient of a Value reaches its inputs unchanged. That is right for a sum and for "
            "nothing else.",
        ),
        Mistake(
            "the incoming gradient left out",
            backward_with(incoming_forgotten=True),
            "each input gets the local derivative alone, as if every Value were the last. Gears "
            "in a row multiply.",
        ),
        Mistake(
            "the wrong sign",
            backward_with(sign=-1.0),
            "every step turns the sign round. Gradients point uphill; it is the optimizer that "
            "goes the other way.",
        ),
    ),
)


# ways


def engine_ways(y: Value, x: Value) -> int:
    """The gradient of a graph of the same form, made of sums."""
    twin = {}
    for node in reversed(topological(y)):
        twin[node] = sum((twin[i] for i in node.inputs), Value(0)) if node.inputs else Value(0)
    if x not in twin:
        return 0
    count = micro.grad(twin[y] + twin[x], twin[x], allow_unused=True)
    return int(count.data) - 1


def with_leaf(make: Callable[[], Value]) -> tuple[Value, Value]:
    y = make()
    return y, next(value for value in topological(y) if value.label == "x")


def ways_by_walking(y: Value, x: Value) -> int:
    count, todo = 0, [y]
    while todo:
        node = todo.pop()
        count += node is x
        todo.extend(node.inputs)
    return count


def ways_from(y: Value, x: Value, overwrite: bool = False, distinct: bool = False) -> int:
    nodes = topological(y)
    count = dict.fromkeys(nodes, 0)
    count[y] = 1
    for node in nodes:
        for value in set(node.inputs) if distinct else node.inputs:
            count[value] = count[node] + (0 if overwrite else count[value])
    return count.get(x, 0)


def ways_uses(y: Value, x: Value) -> int:
    return sum(value is x for node in topological(y) for value in node.inputs) or int(y is x)


def ways_to_oneself_none(y: Value, x: Value) -> int:
    return 0 if y is x else ways_from(y, x)


def ways_of_members_only(y: Value, x: Value) -> int:
    nodes = topological(y)
    count = dict.fromkeys(nodes, 0)
    count[y] = 1
    for node in nodes:
        for value in node.inputs:
            count[value] += count[node]
    return count[x]


WAYS = Exercise(
    "ways",
    returns="an int",
    truth=engine_ways,
    cases=(
        case(*with_leaf(single), text="ways(x, x)"),
        case(*with_leaf(triple), text="ways(y, x) with y = 3 x"),
        case(triple(), Value(1.0), text="ways(y, z) with y = 3 x, and z not used"),
        case(*with_leaf(square), text="ways(y, x) with y = x * x"),
        case(*with_leaf(diamond), text="ways(c, x) of the diamond: y = 3 x, c = 2 y + 5 y"),
        case(*with_leaf(mirrored_diamond), text="ways(c, x) with y = sin(x), c = y * x - x / y"),
        case(*with_leaf(doubled), text="ways(y, x) with x = x + x, sixty times"),
    ),
    mistakes=(
        Mistake(
            "every way walked to its end",
            ways_by_walking,
            "right, but 2^60 ways cannot be walked. Each way to a Value goes on in the same way: "
            "if 5 lead to y, how many lead to its input x through y?",
        ),
        Mistake(
            "= for +=",
            lambda y, x: ways_from(y, x, overwrite=True),
            "the ways through one use replace those through the other.",
        ),
        Mistake(
            "two arrows from one Value counted as one",
            lambda y, x: ways_from(y, x, distinct=True),
            "in x * x, how many arrows leave x?",
        ),
        Mistake(
            "uses instead of ways",
            ways_uses,
            "this counts the last arrows, those that touch x. Each of them can be reached in "
            "several ways.",
        ),
        Mistake(
            "no way from a Value to itself",
            ways_to_oneself_none,
            "standing still is a way; the count starts with it, as gradients start with 1.",
        ),
        Mistake(
            "a Value that y was not made of",
            ways_of_members_only,
            "what does your function do with an x that it never meets?",
        ),
    ),
)

EXERCISES = (ORDER, BACKWARD, WAYS)
