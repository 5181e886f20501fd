"""Run the scripts of ``docs/gallery``, and make pages of their text, output and figures.

Lines ``# %%`` divide a script into pieces. The comments at the beginning of a piece are Markdown,
and the rest is code. The constant ``ROWS`` sets the number of rows, and can be replaced by a
smaller one.
"""

import ast
import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = (
    "stream_a_csv",
    "serve_a_model",
    "intervals_under_drift",
    "labels_that_cost",
    "a_federation",
    "compare_with_river",
    "write_an_algorithm",
    "classify_text",
    "ten_million_rows",
)  # in the order of the site


class Piece(NamedTuple):
    """Piece of a script: Markdown, code, and the line of the script at which the code begins."""

    prose: str
    code: str
    line: int


class Ran(NamedTuple):
    """Piece that was run: its output, and its figures as PNG files."""

    piece: Piece
    printed: str
    figures: list[bytes]


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a script."""
    found, line = [], 1
    for part in re.split(r"^# %%\n", text, flags=re.MULTILINE):
        prose = "".join(re.findall(r"\A(?:#.*\n)+", part))
        code = part[len(prose) :]
        begins = line + prose.count("\n") + len(code) - len(code.lstrip("\n"))
        found.append(Piece(re.sub(r"^# ?", "", prose, flags=re.M), code.strip("\n"), begins))
        line += part.count("\n") + 1
    return found


def title(name: str) -> str:
    """Return the heading of a script, its first line."""
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def run(name: str, rows: int | None = None) -> list[Ran]:
    """Run a script in a temporary folder; ``rows`` replaces its ROWS."""
    import matplotlib

    path = FOLDER / f"{name}.py"
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    ran = []
    with (
        tempfile.TemporaryDirectory() as place,
        contextlib.chdir(place),
        matplotlib.rc_context(),  # whatever this process has set before
    ):
        matplotlib.rcdefaults()
        matplotlib.use("Agg")
        for piece in pieces(path.read_text(encoding="utf-8")):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(_compiled(piece, path, rows), namespace)
            ran.append(Ran(piece, printed.getvalue(), _figures()))
    return ran


def run_alone(name: str, rows: int | None = None, **environment: str) -> list[Ran]:
    """Run a script like ``run``, in a new process with additional environment variables."""
    before = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(run, name, rows).result()
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)


def _compiled(piece: Piece, path: Path, rows: int | None) -> Any:
    tree = ast.parse("\n" * (piece.line - 1) + piece.code, str(path))
    for node in tree.body:
        names = [ast.unparse(it) for it in node.targets] if isinstance(node, ast.Assign) else []
        if rows is not None and isinstance(node, ast.Assign) and names == ["ROWS"]:
            node.value = ast.copy_location(ast.Constant(rows), node.value)
    return compile(tree, str(path), "exec")


def _figures() -> list[bytes]:
    """Return all open figures, and close them."""
    import matplotlib.pyplot as plt

    files = []
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=130, bbox_inches="tight")
        files.append(file.getvalue())
    plt.close("all")
    return files


def page(name: str, ran: list[Ran]) -> tuple[str, dict[str, bytes]]:
    """Return a script that was run as Markdown, and its figures by their file names."""
    lines, figures = [], {}
    for number, one in enumerate(ran):
        lines.append(one.piece.prose)
        if one.piece.code:
            lines.append(f"```python\n{one.piece.code}\n```\n")
        if one.printed.strip():
            lines.append(
                f'``` {{ .text .no-copy title="It prints" }}\n{one.printed.rstrip()}\n```\n'
            )
        for k, figure in enumerate(one.figures):
            file = f"{name}_{number}_{k}.png"
            figures[file] = figure
            lines.append(f"![What this script drew]({file})\n")
    lines.append(f"The script: [`docs/gallery/{name}.py`]({name}.py).\n")
    return "\n".join(lines), figures


def index(markdown: str, figures: Iterable[str]) -> str:
    """Return the page that lists the scripts, each with its first figure."""
    first: dict[str, str] = {}
    for file in figures:
        first.setdefault(re.sub(r"_\d+_\d+\.png$", "", file), file)

    def shown(match: re.Match[str]) -> str:
        title, name, about = match.groups()
        thumbnail = f"[![{title}]({first[name]})]({name}.md)" if name in first else ""
        return f"- {thumbnail} **[{title}]({name}.md)** {about[:1].upper()}{about[1:]}."

    items = re.compile(r"^- \[([^]]+)\]\((\w+)\.py\): (.*)$", re.MULTILINE)
    start = items.search(markdown)
    assert start is not None, "docs/gallery/README.md lists the scripts"
    head, body = markdown[: start.start()], markdown[start.start() :]
    return f'{head}<div class="cards" markdown>\n\n{items.sub(shown, body)}\n</div>\n'
