"""Downloads from a server on this machine that behaves well or badly."""

import functools
import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omkl.commands import data
from omkl.datasets import DataError, catalogue, open_stream

STREAM = {"limit": None, "scaling": "whole", "order": "file"}


class Publisher(http.server.BaseHTTPRequestHandler):
    """Sends ``body`` with ``status`` and claims ``surplus`` bytes more than it has."""

    def __init__(self, answer: dict[str, Any], *args: Any) -> None:
        self.answer = answer
        super().__init__(*args)

    def do_GET(self) -> None:
        self.answer["path"] = self.path
        self.send_response(self.answer.get("status", 200))
        body = self.answer.get("body", b"")
        self.send_header("Content-Length", str(len(body) + self.answer.get("surplus", 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def publisher(tmp_path, monkeypatch) -> Iterator[dict[str, Any]]:
    """What the server will answer; the data folders are empty ones below tmp_path."""
    monkeypatch.setattr(catalogue, "project_root", lambda: tmp_path / "checkout")
    monkeypatch.setattr(catalogue, "BUNDLED", tmp_path / "bundled")
    monkeypatch.delenv("OMKL_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("OMKL_DATA_DIR", str(tmp_path / "mine"))
    answer: dict[str, Any] = {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Publisher, answer))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("OMKL_UCI_URL", f"http://127.0.0.1:{server.server_port}")
    yield answer
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def airfoil() -> tuple[dict[str, Any], bytes]:
    """The entry and content of airfoil; made-up content where the file is not found."""
    entry = catalogue.entry("airfoil")
    path = catalogue.locate(entry["file"])
    if path is not None:
        return entry, path.read_bytes()
    content = "".join(f"{k}\t0\t{k % 7}\t1\t2\t{k % 5}\n" for k in range(1503)).encode()
    return entry | {"sha256": hashlib.sha256(content).hexdigest()}, content


def zipped(content: bytes, name: str = "airfoil_self_noise.dat") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr(name, content)
    return buffer.getvalue()


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("folder", ["", "a folder/"])
def test_a_run_downloads_what_it_lacks(airfoil, publisher, tmp_path, folder):
    entry, content = airfoil
    publisher["body"] = zipped(content, f"{folder}airfoil_self_noise.dat")
    assert open_stream(entry, STREAM).n_rounds == 1503
    assert publisher.pop("path") == "/static/public/291/airfoil+self+noise.zip"
    assert files_below(tmp_path / "mine") == ["airfoil/airfoil_self_noise.dat"]
    assert (tmp_path / "mine" / entry["file"]).read_bytes() == content
    assert open_stream(entry, STREAM).n_rounds == 1503
    assert "path" not in publisher, "a file that is there is not downloaded again"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda body: {"body": body, "surplus": 100}, "broke off half-way"),
        (lambda body: {"body": body[: len(body) // 2]}, "is not a whole zip file"),
        (lambda body: {"body": b"<html>sorry</html>"}, "is not a whole zip file"),
        (lambda body: {"body": b"", "status": 404}, "404 Client Error"),
        (lambda body: {"body": b"", "status": 503}, "503 Server Error"),
        (lambda body: {"body": zipped(b"1 2 3 4 5 6\n")}, "is not the expected file"),
        (lambda body: {"body": zipped(b"", "other.dat")}, "holds no airfoil_self_noise.dat, but"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(airfoil, publisher, tmp_path, spoil, message):
    entry, content = airfoil
    publisher |= spoil(zipped(content))
    with pytest.raises(DataError, match=message) as failure:
        open_stream(entry, STREAM)
    assert "airfoil" in str(failure.value) and "static/public/291" in str(failure.value)
    assert files_below(tmp_path) == []


def test_no_server_and_no_permission(airfoil, publisher, tmp_path, monkeypatch):
    entry, _ = airfoil
    monkeypatch.setenv("OMKL_UCI_URL", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"connection to http://127.0.0.1:9/.* failed") as failure:
        open_stream(entry, STREAM)
    where, what = str(failure.value).splitlines()  # no more: not the library's own words
    assert "airfoil" in where and "was not found in" in where
    assert what.endswith(f"or put the file at {catalogue.data_folders()[0] / entry['file']}")
    monkeypatch.setenv("OMKL_OFFLINE", "1")
    with pytest.raises(DataError, match=r"OMKL_OFFLINE forbids.*\n?.*omkl-data fetch airfoil"):
        open_stream(entry, STREAM)
    assert files_below(tmp_path / "mine") == []


def test_a_folder_that_cannot_be_written(airfoil, publisher, tmp_path, monkeypatch):
    entry, content = airfoil
    publisher["body"] = zipped(content)

    def refuse(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(DataError, match=r"cannot write .*No space left.*OMKL_DATA_DIR"):
        catalogue.fetch(entry)
    assert files_below(tmp_path) == []


def test_omkl_data_fetch(airfoil, publisher, tmp_path, monkeypatch, capsys):
    entry, content = airfoil
    monkeypatch.setattr(catalogue, "entry", lambda name: entry)
    publisher["body"] = zipped(content)
    assert data.main(["fetch", "airfoil"]) == 0
    assert "wrote" in capsys.readouterr().out
    assert data.main(["fetch", "airfoil"]) == 0
    assert "already there" in capsys.readouterr().out
    (tmp_path / "mine" / entry["file"]).write_bytes(content[:-1])
    assert data.main(["fetch", "airfoil"]) == 1
    assert "Delete it and run: omkl-data fetch airfoil" in capsys.readouterr().err
