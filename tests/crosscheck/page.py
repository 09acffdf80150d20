"""A page of figures that several programs write to, each its own section."""

from __future__ import annotations

__all__ = ["with_section"]


def with_section(page: str, title: str, text: str) -> str:
    """The page with ``text`` as its section ``title``, in the place of an older one or at the end.

    >>> with_section("# P\\n\\n## A\\n\\nold\\n\\n## B\\n\\nb\\n", "A", "new")
    '# P\\n\\n## A\\n\\nnew\\n\\n## B\\n\\nb\\n'
    """
    head, *sections = page.rstrip("\n").split("\n## ")
    kept = {section.partition("\n")[0]: section.rstrip("\n") for section in sections}
    kept[title] = f"{title}\n\n{text.strip()}"
    return "\n\n## ".join([head.rstrip("\n"), *kept.values()]) + "\n"
