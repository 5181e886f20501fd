"""The bytes of a file as they were when they were first read: no later reader gets others.

A file is read several times: for its columns and classes, for the extent of its values, by every
learner and comparator. ``FileContent`` reads it once in advance and takes the sha256 of all bytes
and a digest of every block. Who opens it later is given a block only after its digest was compared,
so rows are always those of the sha256; where they are not, ``ChangedFile`` names the file.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from omkl.datasets.base import DataError

BLOCK = 2**17
DIGEST_BYTES = 16
MOST_LINE_BYTES = 2**24  # of a line of text; a longer one is no row


class ChangedFile(DataError):
    """A file does not hold the bytes any more that it held when it was first read."""


class FileContent:
    """A file's path, ``name``, ``size`` in bytes and ``sha256``, of which ``open`` gives no others.

    ``n_lines`` is how many lines it has, where it is text that is not packed.

    Raises DataError where the path is no regular file or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        digest = hashlib.sha256()
        self._blocks: list[bytes] = []
        self.n_lines, block = 0, b"\n"
        with _opened(path) as file:
            self._facts = _facts(os.fstat(file.fileno()))
            self.size = self._facts[0]
            for k in range(-(-self.size // BLOCK)):
                block = self._read(file, k)
                digest.update(block)
                self._blocks.append(_digest(block))
                self.n_lines += block.count(b"\n")
            self.n_lines += not block.endswith(b"\n")
            self.sha256 = digest.hexdigest()
        self._require_facts()

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The content from its start; ChangedFile as soon as a block or the end is another."""
        self._require_facts()
        with _opened(self.path) as file:
            raw = _Compared(file, self)
            try:
                with io.BufferedReader(raw, BLOCK) as buffered:
                    yield buffered
            except Exception:
                if raw.failure:  # whatever a parser made of it
                    raise raw.failure from None
                raise
        self._require_facts()

    @contextlib.contextmanager
    def open_text(self) -> Iterator[IO[bytes]]:
        """As ``open``, unpacked where the name ends in .gz, for text: a line has its bounds."""
        with self.open() as file:
            packed = self.name.lower().endswith(".gz")
            plain: Any = gzip.GzipFile(fileobj=file) if packed else file
            with io.BufferedReader(_Lines(plain, self.name), BLOCK) as bounded:
                yield bounded

    @contextlib.contextmanager
    def open_lines(self, encoding: str) -> Iterator[IO[str]]:
        """As ``open_text``, decoded, without the mark that some put before UTF-8."""
        marked = codecs.lookup(encoding).name == "utf-8"
        with (
            self.open_text() as plain,
            io.TextIOWrapper(plain, encoding="utf-8-sig" if marked else encoding) as file,
        ):
            yield file

    def block(self, file: BinaryIO, k: int) -> bytes:
        """Block k as it was; ChangedFile where it is another."""
        block = self._read(file, k)
        if _digest(block) != self._blocks[k]:
            raise self._changed("its bytes are others now")
        return block

    def _read(self, file: BinaryIO, k: int) -> bytes:
        file.seek(k * BLOCK)
        size, block = min(BLOCK, self.size - k * BLOCK), b""
        try:
            while len(block) < size and (more := file.read(size - len(block))):
                block += more
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}.") from None
        if len(block) < size:
            raise self._changed(f"it had {self.size:,} bytes and is shorter now")
        return block

    def _require_facts(self) -> None:
        """Size, time and inode are as they were; where only the size is, so are the bytes."""
        try:
            facts = _facts(os.stat(self.path))
        except OSError as error:
            raise self._changed(f"it cannot be opened any more ({error.strerror})") from None
        if facts == self._facts:
            return
        if facts[0] != self.size:
            raise self._changed(f"it had {self.size:,} bytes and has {facts[0]:,} now")
        with _opened(self.path) as file:
            for k in range(len(self._blocks)):
                self.block(file, k)
        self._facts = facts

    def _changed(self, how: str) -> ChangedFile:
        return ChangedFile(
            f"{self.name}: the file changed while it was read: {how}. No result is kept, since it "
            "would be of rows from both. Start again when nobody writes to it, or work on a copy."
        )


class _Compared(io.RawIOBase):
    """A file whose blocks are compared with those of a ``FileContent``."""

    def __init__(self, file: BinaryIO, content: FileContent) -> None:
        self._file, self._content, self._at = file, content, 0
        self._number, self._block = -1, b""
        self.failure: DataError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}
        self._at = max(0, start[whence] + offset)
        return self._at

    def readinto(self, target: Any, /) -> int:
        if self._at >= self._content.size:
            return 0
        k, start = divmod(self._at, BLOCK)
        if k != self._number:
            try:
                self._number, self._block = k, self._content.block(self._file, k)
            except DataError as error:
                self.failure = error
                raise
        n = min(len(target), len(self._block) - start)
        target[:n] = self._block[start : start + n]
        self._at += n
        return n


class _Lines(io.RawIOBase):
    """Bytes of text, none of its lines longer than MOST_LINE_BYTES: so no memory fills."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._name, self._since = name, 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        data = self._read(len(target))
        last = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._since = self._since + len(data) if last < 0 else len(data) - last - 1
        if self._since > MOST_LINE_BYTES:
            raise DataError(
                f"{self._name}: a line is longer than {MOST_LINE_BYTES:,} bytes, which is no row "
                "of a table. Look at the file; dataset.encoding may be another."
            )
        target[: len(data)] = data
        return len(data)


def _opened(path: Path) -> BinaryIO:
    """The file; DataError for what is none: a pipe would wait for ever for somebody to write."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = "a folder" if path.is_dir() else "a pipe or a device"
            raise DataError(f"{path} is {kind}, and a file is needed.")
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _facts(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _digest(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=DIGEST_BYTES).digest()
