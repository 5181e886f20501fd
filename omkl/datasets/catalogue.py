"""Read the catalogue of data sets, conf/dataset/*.yaml, and download their files.

Keys of a tabular entry
-----------------------
name, title    name on the command line; title as published
task           "regression" | "classification"
labels         of a classification: classes as spelled in the target's column. Of two classes the
               first is -1 and the second +1
file           path below a data folder, see ``locate``
format         csv | zip | excel | mat | libsvm
delimiter, header, decimal, encoding   layout of a text file
array          name of the array in a mat file that contains inputs and target; null: arrays X, y
members        files in a zip whose rows are concatenated: {file: digest}. A digest is sha256:HEX,
               git:HEX (id of the git blob), or null for any content
member_column  name of an additional last column: the file of each row, without its suffix
columns        names of the columns, for files without a header
inputs         list of names or 1-based positions, a range "3-23", or null: all other
               numeric columns
target         name or 1-based position
missing        error | mean | drop
prepare        steps, see ``omkl.datasets.prepare``
rows           expected number of rows after preparation, before missing values are handled
uci, url       number in the UCI repository; address of the zip
member         the file's name in the zip; null if it cannot be downloaded automatically
by_hand        instructions to obtain a file that cannot be downloaded automatically
sha256         digest of the file; null accepts any content
sites          column with the site of a row, for federation=by_site
federated      clients and rounds of a published federation of these data
licence, citation, notes

A file is searched in ``OMKL_DATA_DIR`` (if set), in ``data/`` of the project, in ``shared/data``
next to the project, and among the files of the package (``bundled``). If no folder has the file, it
is extracted from the publisher's zip into the first folder. ``OMKL_UCI_URL`` is the address of a
mirror of the UCI repository, and ``OMKL_OFFLINE=1`` forbids downloads. The sha256 of every file is
checked before the file is used.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omkl.datasets.base import DataError, MissingFile, is_relative_file
from omkl.datasets.files import FileContent
from omkl.utils import conf, disk
from omkl.utils.constraints import no_such


def entries() -> dict[str, dict[str, Any]]:
    """Return the entries of all data sets by name, as Hydra composes them with no overrides."""
    return {name: conf.entry("dataset", name) for name in conf.names("dataset")}


def entry(name: str) -> dict[str, Any]:
    """Return the entry of a data set.

    Raises KeyError for an unknown name. The message suggests a similar name.
    """
    known = conf.names("dataset")
    if name in known:
        return conf.entry("dataset", name)
    raise KeyError(no_such(f"data set {name}", name, known))


UCI = "https://archive.ics.uci.edu"
TIMEOUT_SECONDS = 60
BUNDLED = Path(__file__).parent / "bundled"  # data that come with the package, with their licence

log = logging.getLogger(__name__)


def project_root() -> Path:
    """Return the repository of this package, or the working directory if it is installed."""
    above = Path(__file__).resolve().parents[2]
    return above if (above / "pyproject.toml").is_file() else Path.cwd()


def data_folders() -> tuple[Path, ...]:
    """Return the folders that are searched for files, in order. Downloads go to the first."""
    root = project_root()
    folders = [root / "data", root.parent / "shared" / "data"]
    if folder := os.environ.get("OMKL_DATA_DIR"):
        folders.insert(0, Path(folder).expanduser().resolve())
    return tuple(folders)


def locate(file: str) -> Path | None:
    """Return the path of ``file`` in the first data folder that contains it, or None.

    The data folder of the package is searched last. Raises DataError if ``file`` is not a relative
    path of plain names.
    """
    if not is_relative_file(file):
        raise DataError(f"dataset.file={file!r} is no path of names below a data folder.")
    folders = (*data_folders(), BUNDLED)
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def address(entry: Mapping[str, Any]) -> str | None:
    """Return the download address of a catalogue entry, or None if it is unknown."""
    url = entry.get("url")
    if url is None:
        return None
    base = os.environ.get("OMKL_UCI_URL", UCI).rstrip("/")
    return base + url.removeprefix(UCI) if url.startswith(UCI + "/") else url


def downloadable(entry: Mapping[str, Any]) -> bool:
    """Return whether ``fetch`` can download the file: the entry has an address and a member."""
    return bool(entry.get("url") and entry.get("member"))


def obtain(entry: Mapping[str, Any]) -> FileContent:
    """Return the file of a catalogue entry, downloaded if it is missing, with checked sha256.

    Raises
    ------
    DataError
        The file has another sha256, or is missing and cannot be downloaded. If the entry allows no
        download, the error is a ``MissingFile``.
    """
    path = locate(entry["file"])
    return verified(path, entry) if path is not None else fetch(entry)


def verified(path: Path, entry: Mapping[str, Any]) -> FileContent:
    """Return the content of ``path``. Raises DataError if the entry states another sha256."""
    content = FileContent(path)
    if entry.get("sha256") and content.sha256 != entry["sha256"]:
        again = f"run: omkl-data fetch {entry['name']}" if downloadable(entry) else "get it anew"
        raise DataError(
            f"{entry['name']}: {path} is not the file it should be.\n"
            f"  expected sha256 {entry['sha256']}\n"
            f"  found    sha256 {content.sha256}\n"
            f"Delete it and {again}. "
            "If another version is wanted, set dataset.sha256=null."
        )
    return content


def fetch(entry: Mapping[str, Any]) -> FileContent:
    """Download the file of a catalogue entry into the first data folder.

    The file is moved to its place after its sha256 was checked. After a failure there is no file.

    Raises
    ------
    DataError
        No address is known, downloads are forbidden, the download failed, or the file
        is not the expected one.
    """
    name, folder = entry["name"], data_folders()[0]
    destination = folder / entry["file"]
    if not downloadable(entry):
        raise MissingFile(_nowhere(entry, str(entry.get("by_hand") or "").strip()))
    url = str(address(entry))
    if os.environ.get("OMKL_OFFLINE", "") not in ("", "0"):
        raise DataError(
            _nowhere(
                entry,
                f"OMKL_OFFLINE forbids downloads. Unset it and run: omkl-data fetch {name}\n"
                f"or take {entry['member']} out of {url}",
            )
        )
    log.info("%s: downloading %s", name, url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        disk.remove_abandoned(folder)
        with tempfile.TemporaryDirectory(prefix=disk.STAGING, dir=folder) as staging:
            member = Path(staging) / "member"
            member.write_bytes(_downloaded(entry, url, staging))
            destination.parent.mkdir(parents=True, exist_ok=True)
            os.replace(member, destination)
    except OSError as error:
        raise DataError(
            f"cannot write {destination}: {error.strerror}. "
            "Set OMKL_DATA_DIR to a folder that can be written."
        ) from error
    log.info("%s: wrote %s", name, destination)
    return verified(destination, entry)


def _nowhere(entry: Mapping[str, Any], cure: str) -> str:
    """Return the message for a missing file: folders searched, cure, and source of the data."""
    folders = " or ".join(map(str, data_folders()))
    text = f"{entry['name']}: {entry['file']} was not found in {folders}\n{cure}"
    url = address(entry)
    if url is not None and url not in cure:
        text += f"\nOriginal data: {url}"
    return text


def _downloaded(entry: Mapping[str, Any], url: str, folder: str) -> bytes:
    """Download the zip at ``url`` into a folder, and return the member that the entry states.

    The member is found by its name in any folder of the zip, because publishers move files.
    """
    import pooch
    from requests import exceptions

    pooch.get_logger().setLevel(logging.WARNING)
    download = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)
    name, member = entry["name"], str(entry["member"])
    try:
        with zipfile.ZipFile(pooch.retrieve(url, None, "zip", folder, downloader=download)) as file:
            inside = file.namelist()
            same = [path for path in inside if Path(path).name == Path(member).name]
            same = [member] if member in same else same
            if len(same) != 1:
                raise DataError(
                    f"{name}: {url} holds {'more than one' if same else 'no'} {Path(member).name}, "
                    f"but {', '.join(inside) or 'nothing'}. Set dataset.member to one of these."
                )
            data = file.read(same[0])
    except exceptions.HTTPError as error:
        why = str(error)
    except exceptions.ChunkedEncodingError:
        why = f"The download of {url} broke off half-way"
    except exceptions.RequestException as error:
        why = f"The connection to {url} failed ({type(error).__name__})"
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        why = f"What {url} sent is not a whole zip file ({error})"
    else:
        sha256 = hashlib.sha256(data).hexdigest()
        if entry.get("sha256") in (None, sha256):
            return data
        raise DataError(
            f"{name}: {member} in {url} is not the expected file; it was not kept.\n"
            f"  expected sha256 {entry['sha256']}\n"
            f"  found    sha256 {sha256}\n"
            "Try again; if it stays so the publisher has changed the file. "
            "To work with the new one, set dataset.sha256=null."
        )
    place = data_folders()[0] / entry["file"]
    cure = f"{why}. Run omkl-data fetch {name} later, or put the file at {place}"
    raise DataError(_nowhere(entry, cure))
