"""Checksums: ``result.json`` holds the SHA-256 of every file of its run and of its own text.

They find what a disk, a copy or an edit has changed. They are no signature: whoever can write a run
folder can write its checksums as well. In the JSON they are called ``seal``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULT = "result.json"
LABELS = "labels.csv"
# The files that hold numbers and configuration; figures are drawn from these.
CHECKED = (
    "config.yaml", "curves.npz", "results.parquet", "predictions.parquet", "model.npz", LABELS,
)  # fmt: skip

_BLANK = "0" * 64


class CorruptFileError(ValueError):
    """A file is damaged: it does not match its checksum or its schema; the text says where."""


def sha256_of(data: bytes | str | Path) -> str:
    """The digest of bytes, of a text, or of the file at a path, which may be larger than memory."""
    if isinstance(data, Path):
        with data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def files_in(folder: Path, but: tuple[str, ...] = ()) -> dict[str, str]:
    """The SHA-256 of every checked file of a run folder, by its name."""
    names = [name for name in CHECKED if name not in but and (folder / name).exists()]
    return {name: sha256_of(folder / name) for name in names}


def checksummed_text(
    content: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
) -> str:
    """A mapping as JSON whose last key, ``seal``, holds the sha256 of ``files`` and of this text.

    The text's own digest is that of the text with 64 zeros in its place. Raises ValueError for
    numbers that are not finite.
    """
    seal = {**(files or {}), RESULT: _BLANK}
    whole = {key: value for key, value in content.items() if key != "seal"} | {"seal": seal}
    text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    head, _, tail = text.rpartition(_BLANK)
    return head + sha256_of(text) + tail


def read_checksummed(text: str) -> dict[str, Any]:
    """The content of a ``checksummed_text``, without its checksums. Raises CorruptFileError."""
    content = content_of(text)
    if "seal" not in content:
        raise CorruptFileError("it has lost its checksums (seal)")
    require_whole(text, content["seal"])
    return {key: value for key, value in content.items() if key != "seal"}


def content_of(text: str) -> dict[str, Any]:
    """The mapping in a JSON text. Raises CorruptFileError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"it is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise CorruptFileError(f"it holds a {type(content).__name__}, not a mapping")
    return content


def require_whole(text: str, seal: Any) -> None:
    """Raises CorruptFileError where the sha256 in ``seal`` is not that of the text."""
    own = seal.get(RESULT) if isinstance(seal, dict) else None
    head, found, tail = text.rpartition(str(own))
    if not found or sha256_of(head + _BLANK + tail) != own:
        raise CorruptFileError("it is not as it was written: its sha256 is another")


def require_files(folder: Path, seal: Mapping[str, Any], but: tuple[str, ...] = ()) -> None:
    """Raise CorruptFileError for the first file of a run folder that differs from ``seal``."""
    found = files_in(folder, but)
    for name in CHECKED:
        if name in but or seal.get(name) == found.get(name):
            continue
        if name not in found:
            raise CorruptFileError(f"{name} is missing")
        if name not in seal:
            raise CorruptFileError(f"{name} was not written by this run")
        raise CorruptFileError(f"{name} is not as it was written: its sha256 is another")
