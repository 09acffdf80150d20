"""The text of a rule, read from the engine's own source: what is shown is what was run."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
from collections.abc import Mapping
from types import CodeType
from typing import Any, TypeAlias

from ..summary import describe_number

__all__ = ["rule_text", "words"]

_Definition: TypeAlias = ast.Lambda | ast.FunctionDef


def rule_text(rule: Any, given: Mapping[str, Any]) -> str:
    """Write a derivative as the engine has it: a number, an expression, or a whole function.

    Args:
        rule: a number, or a function.
        given: by name, what the function was given.

    >>> rule_text(1, {})
    '1'
    >>> rule_text(lambda a, b: a * b, {})
    'a * b'
    """
    if not callable(rule):
        return describe_number(rule)
    code = getattr(rule, "__code__", None)
    definition = None if code is None else _definition(code)
    name = getattr(rule, "__name__", type(rule).__name__)
    if code is None or definition is None or code.co_name not in ("<lambda>", name):
        return f"{name}({', '.join(given)})"
    if isinstance(definition, ast.Lambda):
        return _written(definition.body)
    body = definition.body[1:] if ast.get_docstring(definition) else definition.body
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return _written(body[0].value)
    return textwrap.dedent("".join(inspect.getsourcelines(rule)[0])).rstrip()


def _written(expression: ast.expr) -> str:
    """The expression on one line, its functions without the namespace that they stand in."""
    return ast.unparse(_WithoutNamespaces().visit(ast.parse(ast.unparse(expression), mode="eval")))


class _WithoutNamespaces(ast.NodeTransformer):
    """Turns ``xp.where(...)`` into ``where(...)``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            node.func = ast.Name(node.func.attr, ast.Load())
        return node


def _definition(code: CodeType) -> _Definition | None:
    """Find the lambda or function that was compiled to ``code``; None if that is not certain."""
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    found = [
        node
        for node in _definitions(code.co_filename)
        if isinstance(node, kind) and _first_line(node) == code.co_firstlineno
    ]
    if len(found) > 1:  # several lambdas on a line: the instructions know their columns
        found = [node for node in found if isinstance(node, ast.Lambda) and _spans(node.body, code)]
    return found[0] if len(found) == 1 else None


def _spans(body: ast.expr, code: CodeType) -> bool:
    """Whether the instructions of ``code`` come from ``body``; True if they do not say."""
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        start, end = (line, column), (end_line, end_column)
        if start != end and not (first <= start and end <= last):
            return False
    return True


def _first_line(node: _Definition) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


@functools.cache
def _definitions(filename: str) -> tuple[_Definition, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Lambda | ast.FunctionDef))


def words(text: str) -> set[str]:
    """The names that occur in a rule's text."""
    return set(re.findall(r"[^\W\d]\w*", text))
