"""Names that become parts of paths."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

MOST_BYTES = 80  # of UTF-8: as many characters, in English
STEM_BYTES = 60  # of a file, whose name gets an end


def is_name(given: Any) -> bool:
    """Whether it is text of letters, digits and ``-_.``, at most 80, that begins with no dot."""
    return (
        isinstance(given, str)
        and re.fullmatch(r"[\w-][\w.-]*", given) is not None
        and len(given.encode()) <= MOST_BYTES
    )


def checked_name(key: str, given: Any) -> str:
    """The name; ValueError naming its ``key`` where it is none (``is_name``)."""
    if not is_name(given):
        shown = repr(given)
        raise ValueError(
            f"{key}={shown if len(shown) < 200 else shown[:200] + '...'} is no name: letters, "
            f"digits, '-', '_' and '.', at most {MOST_BYTES}, not beginning with a dot. It becomes "
            "the name of a folder."
        )
    return str(given)


def is_relative_file(given: Any) -> bool:
    """Whether it is a path below a folder, every part of it a name, separated by /."""
    parts = given.split("/") if isinstance(given, str) else []
    return bool(parts) and all(map(is_name, parts))


def name_of_file(file: str) -> str:
    """A name made of that of a file: its stem, other characters as _, cut to 60."""
    stem = re.sub(r"[^\w-]+", "_", PurePosixPath(file).name.partition(".")[0])
    return stem.encode()[:STEM_BYTES].decode(errors="ignore") or "_"
