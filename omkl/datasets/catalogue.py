"""The catalogue of data sets: conf/dataset/*.yaml.

Keys of a tabular entry
-----------------------
name, title    as typed on the command line; as published
task           "regression" | "classification"
labels         of a classification: what stands in the target's column; of two labels the
               first is -1 and the second +1, of more each is a class against the rest
file           path below a data folder, see ``omkl.datasets.download``
format         text | csv | zip | excel | mat | libsvm; with delimiter, header, decimal,
               encoding; array: the only one of a mat file
members        of a zip: {file in it: its digest}, read one below the other; a digest is
               sha256:HEX, git:HEX (id of the git blob) or null
member_column  of a zip: a last column with the name of the file, without its ending
columns        names, for files without a header
inputs         list of names or 1-based positions, a range "3-23", or null: all other
               numeric columns
target         name or 1-based position
missing        error | mean | drop
prepare        steps, see ``omkl.datasets.prepare``
rows           expected number of rows after preparation, before blanks are dealt with
uci, url       number in the UCI repository, address of the zip
member         the file's name in the zip; null if it cannot be fetched automatically
by_hand        how to get it in that case
sha256         of the file; null accepts any
sites          column that names where a row comes from, for federation=by_site
federated      clients and rounds of a published federation of these data
licence, citation, notes
"""

from __future__ import annotations

import difflib
from typing import Any

from omkl.utils import conf


def entries() -> dict[str, dict[str, Any]]:
    """All data sets by name, as Hydra would compose them without overrides."""
    return {name: conf.entry("dataset", name) for name in conf.names("dataset")}


def entry(name: str) -> dict[str, Any]:
    """One data set; an unknown name is a KeyError that lists all and the nearest."""
    known = conf.names("dataset")
    if name in known:
        return conf.entry("dataset", name)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise KeyError(f"no data set {name!r}.{hint} Known: {', '.join(known)}")
