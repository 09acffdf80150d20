"""``play``: from the result of a computation to a page, or to pictures for slides."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ..dot import Direction
from ..drawing import MAX_NODES, checked_options, names_of, title_of
from ..fold import fold
from ..graph import read, walk
from ..trace import Playable, trace
from .page import page
from .picture import Picture
from .steps import tell

__all__ = ["play"]

_FRAME: Final = re.compile(r"step-\d+\.png")


def play(
    obj: Playable,
    path: str | os.PathLike[str],
    *,
    parameters: Any = None,
    max_nodes: int | None = MAX_NODES,
    direction: Direction = "LR",
    title: str | None = None,
    frames: str | os.PathLike[str] | None = None,
    scale: float = 2.0,
) -> Path:
    """Write a page on which one steps through the computation of ``obj`` and its backward pass.

    The page is one file that needs no server and no network. It shows what the engine did: a
    backward pass is run for it, and each contribution to a gradient is a step, in the order in
    which the engine added it. Forward, the ops come in the order in which they were made if they
    are numbered (``sequence``), else each after its operands, from left to right.

    Gradients, versions and the graph stay as they are; hooks are called as in any pass. A graph
    that a backward pass has freed cannot be played: play it before, or keep it with
    ``retain_graph=True``. Ops made within ``record_sites()`` are shown with the line of code that
    made them.

    Args:
        obj: a micro.Value or a tensor.Tensor with one element, or any object that ``draw`` takes
            and that has ``trace_backward`` (see ``viz.trace.Playable``).
        path: the page, which ends in .html; an older one is replaced.
        parameters: as for ``draw``.
        max_nodes: a graph with more nodes is refused; None for no limit.
        direction: as for ``draw``.
        title: what the page is called; after the output, if not given.
        frames: a folder for the steps as PNG: step-000.png and so on. It is made if it is not
            there; frames of an earlier time are replaced. None for no frames.
        scale: pixels of a frame to a point.

    Returns:
        The path of the page.

    Raises:
        TypeError: obj cannot be played, or max_nodes is not an int.
        ValueError: path has another suffix, obj is a leaf, the graph has more than max_nodes
            nodes, or direction or scale makes no sense.
        FileNotFoundError: there is no such folder to write in.
        RuntimeError: the engine cannot differentiate obj; it says why.
        DrawingError: Graphviz, or matplotlib for frames, is missing.

    Whatever is raised, nothing has been written.
    """
    path, folder = Path(path), None if frames is None else Path(frames)
    _check(path, folder)
    checked_options("play", max_nodes, direction)
    if isinstance(obj, type) or not isinstance(obj, Playable):
        raise TypeError(
            f"play: obj is a {type(obj).__name__}; wanted the result of a computation that has "
            "trace_backward, such as a micro.Value or a tensor.Tensor"
        )
    found = walk(obj)
    nodes = len(found.records)
    if max_nodes is not None and nodes > max_nodes:
        raise ValueError(
            f"play: the graph has {nodes:,} nodes, and max_nodes is {max_nodes:,}; play a smaller "
            "part of it, raise max_nodes, or draw it, which folds what is too much"
        )
    names = names_of(parameters, "play")
    graph = read(found, fold(found, None, None, names), names)
    passed = trace(obj)
    if not passed.contributions:
        raise ValueError("play: obj is a leaf, which no op has made: there is nothing to play")
    title = title_of(graph) if title is None else title
    picture = Picture(tell(graph, found, passed), title, direction)
    text = page(picture, title)
    if folder is not None:
        _write_frames(folder, [picture.png(n, scale) for n in range(len(picture.story.steps))])
    _write(path, text.encode())
    return path


def _check(path: Path, folder: Path | None) -> None:
    """Refuse early what could not be written in the end."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"play: path is {str(path)!r}, but a player is a page: wanted .html")
    if path.is_dir():
        raise IsADirectoryError(f"play: path {str(path)!r} is a folder; wanted a file's name in it")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"play: frames is {str(folder)!r}, a file; wanted a folder")
    for what in (path, folder):
        if what is not None and not what.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"play: there is no folder {str(what.parent)!r} to write {what.name!r} in; make it "
                "first"
            )


def _write_frames(folder: Path, images: Sequence[bytes]) -> None:
    folder.mkdir(exist_ok=True)
    frames = {f"step-{n:03}.png": image for n, image in enumerate(images)}
    for old in folder.iterdir():
        if _FRAME.fullmatch(old.name) and old.name not in frames:
            old.unlink()
    for name, image in frames.items():
        _write(folder / name, image)


def _write(path: Path, content: bytes) -> None:
    """Write all of a file or nothing: readers see the old one until the new one is complete."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
