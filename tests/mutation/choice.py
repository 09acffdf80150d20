"""Which tests run which lines, and which of them to run for a mutant."""

from __future__ import annotations

import ast
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from tests.mutation.sessions import Ran
from tests.structure import ROOT

__all__ = ["Choice"]

AT_ONCE: Final = 3  # files of tests that are collected for a mutant that is imported


class Choice:
    """Which tests run which lines, and which of them to run for a mutant."""

    def __init__(self, known: Iterable[Ran]) -> None:
        self.seconds: dict[str, float] = {}
        self.running: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for ran in known:
            if ran.lines is None:
                continue
            self.seconds[ran.test] = ran.seconds
            for path, lines in ran.lines.items():
                for line in lines:
                    self.running[path][line].add(ran.test)
        self._spans: dict[str, list[tuple[range, range]]] = {}

    def spans(self, path: str) -> list[tuple[range, range]]:
        """Of every statement of a file: its own lines, and those of the outermost around it."""
        if path not in self._spans:
            tree = ast.parse((ROOT / path).read_text("utf-8"))
            self._spans[path] = [
                (_own_lines(node), _all_lines(outermost))
                for outermost in tree.body
                for node in ast.walk(outermost)
                if isinstance(node, ast.stmt)
            ]
        return self._spans[path]

    def tests(self, path: str, line: int, whole: bool) -> set[str]:
        """The tests that run a statement, or anything in the outermost statement around it."""
        found = [pair for pair in self.spans(path) if line in pair[0]]
        lines = (
            found[-1][1] if whole and found else found[-1][0] if found else range(line, line + 1)
        )
        running = self.running[path]
        tests = set().union(*(running[n] for n in lines if n in running))
        return tests or (set().union(*running.values()) if whole else set())

    def chosen(self, tests: Iterable[str], budget: float) -> list[str]:
        """Tests that take so many seconds: of each function the quickest first, in turns."""
        functions: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            functions[test.partition("[")[0]].append(test)
        chosen, total = [], 0.0
        for turn in itertools.zip_longest(*functions.values()):
            for test in turn:
                if test is None:
                    continue
                total += self.seconds[test]
                if total > budget and chosen:
                    return chosen
                chosen.append(test)
        return chosen

    def few_files(self, tests: Iterable[str]) -> set[str]:
        """Those of the tests that stand in the few files which have most of them."""
        files = Counter(test.partition("::")[0] for test in tests)
        most = {file for file, _ in files.most_common(AT_ONCE)}
        return {test for test in tests if test.partition("::")[0] in most}


def _own_lines(node: ast.stmt) -> range:
    """The lines of a statement, without those of statements in it."""
    body = getattr(node, "body", None)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return range(first, max(body[0].lineno, first + 1) if body else (node.end_lineno or first) + 1)


def _all_lines(node: ast.stmt) -> range:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or first) + 1)
