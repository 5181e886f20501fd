"""Seals: a file of results says the sha256 of itself, and ``result.json`` that of its run's files.

A seal finds what a disk, a copy or a hand has changed. It is no signature: who can write a run
folder can seal it as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULT = "result.json"
LABELS = "labels.csv"
# What a run writes as numbers and configuration; figures are drawn from these.
SEALED = (
    "config.yaml", "curves.npz", "results.parquet", "predictions.parquet", "model.npz", LABELS,
)  # fmt: skip

_BLANK = "0" * 64


class Broken(ValueError):
    """A file is not what was sealed; the text says in what."""


def sha256_of(data: bytes | str | Path) -> str:
    """The digest of bytes, of a text, or of the file at a path, which may be larger than memory."""
    if isinstance(data, Path):
        with data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def files_in(folder: Path, but: tuple[str, ...] = ()) -> dict[str, str]:
    """The sha256 of every file of a run folder that is sealed, by its name."""
    names = [name for name in SEALED if name not in but and (folder / name).exists()]
    return {name: sha256_of(folder / name) for name in names}


def sealed_text(
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


def read_sealed(text: str) -> dict[str, Any]:
    """The content of ``sealed_text``, its seal left out. Raises Broken."""
    content = content_of(text)
    if "seal" not in content:
        raise Broken("it has lost its seal")
    require_whole(text, content["seal"])
    return {key: value for key, value in content.items() if key != "seal"}


def content_of(text: str) -> dict[str, Any]:
    """The mapping in a JSON text. Raises Broken."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Broken(f"it is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise Broken(f"it holds a {type(content).__name__}, not a mapping")
    return content


def require_whole(text: str, seal: Any) -> None:
    """Raises Broken where the sha256 in ``seal`` is not that of the text."""
    own = seal.get(RESULT) if isinstance(seal, dict) else None
    head, found, tail = text.rpartition(str(own))
    if not found or sha256_of(head + _BLANK + tail) != own:
        raise Broken("it is not as it was written: its sha256 is another")


def require_files(folder: Path, seal: Mapping[str, Any], but: tuple[str, ...] = ()) -> None:
    """Raises Broken, naming the file, where the files of a run folder are not those of ``seal``."""
    found = files_in(folder, but)
    for name in SEALED:
        if name in but or seal.get(name) == found.get(name):
            continue
        if name not in found:
            raise Broken(f"{name} is missing")
        if name not in seal:
            raise Broken(f"{name} was not written by this run")
        raise Broken(f"{name} is not as it was written: its sha256 is another")
