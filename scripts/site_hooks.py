"""Hooks of mkdocs: generated pages, links, and a check of the built site.

``GALLERY_ROWS=200`` in the environment runs the gallery with few rows.
"""

from __future__ import annotations

import functools
import logging
import os
import posixpath
import re
import time
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pages import capabilities, cards, formulas, gallery, links, reference

from omkl.config.reference import markdown as settings_page
from omkl.utils.wording import time_left

ROOT = Path(__file__).parents[1]
LOG = logging.getLogger("mkdocs.plugins.omkl")  # shown by mkdocs while it builds
PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # pages that are not in docs/


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are generated."""
    found: dict[str, list[Any]] = {
        "GALLERY": [{gallery.title(name): f"gallery/{name}.md"} for name in gallery.SCRIPTS],
        "ALGORITHMS": [
            {group: [{cards.registry.title(name): cards.place(name)} for name in names]}
            for group, names in cards.groups().items()
        ],
    }
    config.nav = [_filled(item, found) for item in config.nav or []]
    return config


def _filled(item: Any, found: dict[str, list[Any]]) -> Any:
    if isinstance(item, dict):
        return {title: _filled(inner, found) for title, inner in item.items()}
    if isinstance(item, list):
        lists = [found[inner] if str(inner) in found else [_filled(inner, found)] for inner in item]
        return [inner for one in lists for inner in one]
    return item


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and their pictures."""
    rows = os.environ.get("GALLERY_ROWS")
    contents: dict[str, str | bytes] = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in PROJECT
    }
    contents |= reference.pages()
    contents["settings.md"] = settings_page()
    contents[capabilities.PLACE] = capabilities.page()
    begun = time.perf_counter()
    for k, name in enumerate(gallery.SCRIPTS):
        left = time_left(time.perf_counter() - begun, k, len(gallery.SCRIPTS))
        LOG.info("Gallery %d of %d: %s  %s", k + 1, len(gallery.SCRIPTS), name, left)
        page, figures = _ran(name, (gallery.FOLDER / f"{name}.py").read_text("utf-8"), rows)
        contents[f"gallery/{name}.md"] = f"---\nhide: [toc]\n---\n\n{page}"  # code needs the room
        contents |= {f"gallery/{file}": figure for file, figure in figures.items()}
    contents[f"{cards.FOLDER}/index.md"] = cards.index()
    LOG.info("Algorithms: %d pages, each with a run", len(cards.names()))
    for name in cards.names():
        curve = cards.curve(name)
        contents[cards.place(name)] = cards.card(name, curve)
        contents[cards.place(name).replace(".md", ".svg")] = cards.picture(curve)
    for place, content in contents.items():
        files.append(File.generated(config, place, content=content))
    return files


@functools.cache
def _ran(name: str, text: str, rows: str | None) -> tuple[str, dict[str, bytes]]:
    """Return a gallery page; run its script again if the script has changed."""
    return gallery.page(name, gallery.run_alone(name, int(rows) if rows else None))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the repository's links to pages outside docs/ and to gallery scripts."""
    place = page.file.src_uri
    if place in PROJECT:
        return re.sub(r"\]\(docs/", "](", markdown)
    if place == "gallery/README.md":
        drawn = [file.src_uri for file in files if re.match(r"gallery/.*\.png$", file.src_uri)]
        return gallery.index(markdown, sorted(posixpath.basename(uri) for uri in drawn))
    return re.sub(rf"\]\(\.\./({'|'.join(PROJECT)})", r"](\1", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace formulas by MathML."""
    return formulas.typeset(html)


def on_post_build(config: MkDocsConfig) -> None:
    """Check the built site. Raises an error for a dead link or a file loaded from another site."""
    problems = links.problems(Path(config.site_dir))
    if problems:
        raise PluginError("\n".join(problems))
    site = os.path.relpath(config.site_dir)
    LOG.info("Open %s/index.html, or with the search: python -m http.server -d %s", site, site)
