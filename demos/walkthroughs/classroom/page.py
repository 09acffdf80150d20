"""From a notebook that has been run to a page of its own: no server, no network, no script."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["page"]

_NARROW = 640  # points

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 1.05rem/1.55 Georgia, "DejaVu Serif", serif; max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; }}
p, ul, ol {{ max-width: 46rem; }}
h1, h2, h3, summary {{ font-family: Helvetica, Arial, sans-serif; line-height: 1.25; }}
pre, code {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.85rem; }}
pre {{ overflow-x: auto; margin: 0; line-height: 1.4; }}
.code {{ background: #8881; border-left: 3px solid #5a7fb8; padding: 0.6rem 0.8rem;
  margin: 1rem 0 0.4rem; }}
.out > pre {{ white-space: pre-wrap; }}
.out {{ padding: 0.4rem 0.8rem; margin: 0.4rem 0 1rem; }}
figure {{ margin: 0.6rem 0; overflow-x: auto; }}
img {{ max-width: 100%; height: auto; }}
figure.graph img {{ background: Canvas; }}
figure.chart img {{ background: #fff; }}
summary {{ font-size: 0.85rem; cursor: pointer; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border-bottom: 1px solid #8888; padding: 0.2rem 0.7rem; text-align: left; }}
.k, .kn, .ow {{ font-weight: bold; }}
.c1, .sd {{ opacity: 0.75; font-style: italic; }}
@media (max-width: 40rem) {{
  figure.wide img {{ max-width: none; }}
  th, td {{ padding: 0.2rem 0.4rem; }}
}}
@media print {{ iframe {{ display: none; }} .code {{ break-inside: avoid; }} }}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def page(notebook: Any, title: str) -> str:
    """The page of a notebook, as HTML."""
    body = "\n".join(_cell(cell) for cell in notebook.cells)
    return _PAGE.format(title=html.escape(title), body=body)


def _cell(cell: Any) -> str:
    from markdown_it import MarkdownIt
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    if cell.cell_type == "markdown":
        return str(MarkdownIt("commonmark").enable("table").render(cell.source))
    code = highlight(cell.source, PythonLexer(), HtmlFormatter(nowrap=True))
    shown = "\n".join(map(_output, cell.outputs))
    out = f'\n<div class="out">\n{shown}\n</div>' if shown else ""
    return f'<div class="code"><pre>{code}</pre></div>{out}'


def _output(output: Mapping[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"<pre>{html.escape(output['text'])}</pre>"
    data = output["data"]
    text = data.get("text/plain", "")
    if "text/html" in data:
        return str(data["text/html"])
    if "image/svg+xml" in data:
        first = html.escape(text.strip().partition("\n")[0], quote=True)
        # As an image, so that the ids and styles of one picture do not meet another's.
        source = base64.b64encode(data["image/svg+xml"].encode()).decode()
        kind = "graph" if "prefers-color-scheme" in data["image/svg+xml"] else "chart"
        width = re.search(r'<svg[^>]*? width="(\d+)', data["image/svg+xml"])
        if kind == "graph" and width and int(width[1]) > _NARROW:
            kind = "graph wide"  # on a phone it is scrolled, where a narrow one is made smaller
        return (
            f'<figure class="{kind}"><img src="data:image/svg+xml;base64,{source}" alt="{first}">'
            f"<details><summary>In words</summary><pre>{html.escape(text)}</pre></details></figure>"
        )
    return f"<pre>{html.escape(text)}</pre>"
