"""How the tests run the programs in demos/: as a user does, or as modules."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.structure import ROOT

DEMOS: Final = ROOT / "demos"


def run(program: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program without a terminal, with environment variables added to ours."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, f"demos/{program}.py", *options],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def offline(folder: Path) -> dict[str, str]:
    """The environment variables with which no data file can be had."""
    return {
        "SMOLGRAD_DATA": "",
        "XDG_CACHE_HOME": str(folder),
        "https_proxy": "http://127.0.0.1:9",  # refuses at once
        "no_proxy": "",
        "PATH": str(folder),  # no npm
    }


def load(program: str) -> ModuleType:
    """Import a program; it finds its neighbours in demos/ as it does when it is run."""
    sys.path.insert(0, str(DEMOS))
    try:
        return importlib.import_module(program)
    finally:
        sys.path.remove(str(DEMOS))
