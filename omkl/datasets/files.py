"""Read files identified by their sha256. A file that changes between two reads is an error."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from omkl.datasets.base import DataError
from omkl.utils.wording import few

BLOCK = 2**20
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"


class ChangedFile(DataError):
    """Raised if the content of a file has changed since it was first read."""


class FileContent:
    """Content of a file, which must not change between two reads.

    Attributes
    ----------
    path, name
        Path of the file, and its name without the folder.
    size, sha256
        Number and digest of the bytes.
    n_lines
        Number of lines; None if the file is compressed.

    Raises
    ------
    DataError
        The path is no regular file, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.size = path, path.name, 0
        digest, n_lines, self._start, block = hashlib.sha256(), 0, b"", b"\n"
        with _opened(path) as file:
            self._facts = _facts(os.fstat(file.fileno()))
            while more := file.read(BLOCK):
                block, self._start = more, self._start or more[:4]
                digest.update(block)
                self.size += len(block)
                n_lines += block.count(b"\n")
        self.sha256 = digest.hexdigest()
        is_packed = self._start.startswith((GZIP, ZIP))
        self.n_lines = None if is_packed else n_lines + (not block.endswith(b"\n"))

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for reading bytes. Raises ``ChangedFile`` if the file changes meanwhile."""
        self._require_same()
        try:
            with _opened(self.path) as file:
                yield file
        except Exception:
            self._require_same()  # report the change instead of the parser's error
            raise
        self._require_same()

    @contextlib.contextmanager
    def open_text(self) -> Iterator[IO[bytes]]:
        """Open a text file for reading bytes. A gzip, or a zip with one file, is unpacked."""
        with self.open() as file:
            if self._start == ZIP:
                with zipfile.ZipFile(file) as archive:
                    names = [n for n in archive.namelist() if not n.startswith("__MACOSX/")]
                    names = [name for name in names if not name.endswith("/")]
                    if len(names) != 1:
                        raise DataError(
                            f"{self.name}: this is a zip of {len(names)} files: {few(names)}. Name "
                            "an Excel file .xlsx; of several files unpack the one with the table."
                        )
                    with archive.open(names[0]) as unpacked:
                        yield unpacked
                return
            packed: Any = gzip.GzipFile(fileobj=file)
            yield packed if self._start.startswith(GZIP) else file

    @contextlib.contextmanager
    def open_lines(self, encoding: str) -> Iterator[IO[str]]:
        """Open a text file for reading decoded lines, without a byte order mark."""
        marked = codecs.lookup(encoding).name == "utf-8"
        with (
            self.open_text() as plain,
            io.TextIOWrapper(plain, encoding="utf-8-sig" if marked else encoding) as file,
        ):
            yield file

    def _require_same(self) -> None:
        """Raise ``ChangedFile`` if the bytes changed.

        The bytes are compared only if the size, time or inode of the file changed.
        """
        try:
            facts = _facts(os.stat(self.path))
        except OSError:
            facts = ()
        if facts == self._facts:
            return
        if not facts or FileContent(self.path).sha256 != self.sha256:
            raise ChangedFile(
                f"{self.name}: the file changed while it was read. No result is kept, since it "
                "would be of rows from both. Start again when nobody writes to it, or work on a "
                "copy."
            )
        self._facts = facts


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file. Raises DataError for others: reading a pipe might block for ever."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = "a folder" if path.is_dir() else "a pipe or a device"
            raise DataError(f"{path} is {kind}, and a file is needed.")
        with open(path, "rb", buffering=BLOCK) as file:
            yield file
    except OSError as error:
        if not error.strerror:  # raised by a parser, not by the system
            raise
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _facts(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ino
