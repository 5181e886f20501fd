"""Check the links of a built site, and that its pages load nothing from other sites."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by tag; links that a reader may follow are in <a>.
LOADED = {
    "img": ("src", "srcset"), "script": ("src",), "iframe": ("src",), "link": ("href",),
    "source": ("src", "srcset"), "video": ("src",), "object": ("data",),
}  # fmt: skip
NOT_LOADED = {"canonical", "prev", "next", "alternate", "edit"}  # of <link rel=...>


class Found(HTMLParser):
    """Anchors, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.linked: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.linked.append(given["href"])
        if tag == "link" and NOT_LOADED & set(given.get("rel", "").split()):
            return
        self.loaded += [given[name] for name in LOADED.get(tag, ()) if name in given]


def problems(site: Path) -> list[str]:
    """Return a line for each dead link, and for each file that a page loads from another site."""
    pages = {path: Found(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    return sorted({line for path in pages for line in _of_page(site, path, pages)})


def _of_page(site: Path, path: Path, pages: dict[Path, Found]) -> Iterator[str]:
    here = path.relative_to(site)
    for target in pages[path].loaded:
        if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
            yield f"{here} would load {target}"
    for target in [*pages[path].linked, *pages[path].loaded]:
        split = urlsplit(target)
        if split.scheme or split.netloc or path.name == "404.html":
            continue  # the page for what is not there has links from the root of a server
        there = (path.parent / unquote(split.path)).resolve() if split.path else path
        there = there / "index.html" if there.is_dir() else there
        if not there.is_file():
            yield f"{here} links to {target}, which is not there"
        elif there in pages and unquote(split.fragment) not in {*pages[there].anchors, "", "__top"}:
            yield f"{here} links to {target}, which has no such anchor"
