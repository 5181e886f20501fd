"""Streams of files, and the least that is an Excel file."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from omkl.datasets import catalogue, open_stream

WHOLE = {"limit": None, "scaling": "whole", "order": "file"}
COLUMNS, RAW = WHOLE | {"scaling": "columns"}, WHOLE | {"scaling": "none"}


def own(path: Path, **keys: Any) -> dict[str, Any]:
    """The configuration of an own file whose target is called y."""
    return catalogue.entry("file") | {"path": str(path), "target": "y"} | keys


def collect(stream: Any, size: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """All rounds, whose blocks are as they are said to be."""
    blocks = list(stream.blocks(size))
    assert all(len(y) == size for _, y in blocks[:-1])
    assert all(x.flags.c_contiguous and x.dtype == y.dtype == np.float64 for x, y in blocks)
    return np.concatenate([x for x, _ in blocks]), np.concatenate([y for _, y in blocks])


def streamed(path: Path, options: dict[str, Any] = RAW, **keys: Any) -> tuple[list, list]:
    x, y = collect(open_stream(own(path, **keys), options))
    return x.tolist(), y.tolist()


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_CELLS = {
    str: '<c t="inlineStr"><is><t>{}</t></is></c>',
    int: "<c><v>{}</v></c>",
    float: "<c><v>{}</v></c>",
    type(None): "<c/>",
}


def _relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'
    )


def write_excel(path: Path, rows: list[list[Any]]) -> None:
    lines = ("".join(_CELLS[type(cell)].format(cell) for cell in row) for row in rows)
    text = "".join(f"<row>{line}</row>" for line in lines)
    members = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
        "_rels/.rels": _relation("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="one" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>{text}</sheetData>'
        "</worksheet>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
