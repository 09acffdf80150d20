"""Solutions of lesson 3."""

from micro import Value


def order(y: Value) -> list[Value]:
    """Count uses; list whoever has none left."""
    uses = {y: 0}
    todo = [y]
    while todo:
        for x in todo.pop().inputs:
            if x not in uses:
                uses[x] = 0
                todo.append(x)
            uses[x] += 1
    listed, ready = [], [y]
    while ready:
        node = ready.pop()
        listed.append(node)
        for x in node.inputs:
            uses[x] -= 1
            if uses[x] == 0:
                ready.append(x)
    return listed


def backward(y: Value) -> None:
    """Clear everything, then let each Value send its part to its inputs."""
    nodes = order(y)
    for node in nodes:
        node.grad = 0.0
    y.grad = 1.0
    for node in nodes:
        for x, local in zip(node.inputs, node.partials(), strict=True):
            if local is not None:
                x.grad += local * node.grad


def ways(y: Value, x: Value) -> int:
    """The backward pass of a graph in which every local derivative is 1."""
    count = dict.fromkeys(order(y), 0)
    count[y] = 1
    for node in list(count):
        for value in node.inputs:
            count[value] += count[node]
    return count.get(x, 0)
