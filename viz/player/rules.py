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
    if code is None or definition is None or code.co_name not in ("<lambda>", rule.__name__):
        return f"{rule.__name__}({', '.join(given)})"
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
    """Find the lambda or function that was compiled to ``code``."""
    for node in _definitions(code.co_filename):
        if _first_line(node) != code.co_firstlineno:
            continue
        if isinstance(node, ast.FunctionDef):
            if node.name == code.co_name:
                return node
        elif code.co_name == "<lambda>" and _spans(node.body, code):
            return node
    return None


def _spans(body: ast.expr, code: CodeType) -> bool:
    """Whether every instruction of ``code`` comes from ``body``: several lambdas fit on a line."""
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return all(
        start <= (line, column) and (end_line, end_column) <= end
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and (line, column) != (end_line, end_column)
    )


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
