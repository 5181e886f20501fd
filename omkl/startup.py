"""Shortcuts from the shell prompt to the first round. Without them all is the same, later.

Some go around what a library does for a case that does not arise here; they leave the library as it
was.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator


def load_numba() -> None:
    """Import what Numba needs to run compiled code, without SciPy's linear algebra.

    Numba only looks whether ``scipy.linalg.cython_blas`` can be imported, which imports all
    of ``scipy.linalg`` on the way: 0.1 s. Here the package's own code waits until somebody
    imports it; compiled code that calls BLAS finds it as ever.
    """
    if "scipy.linalg" in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    spec = importlib.util.find_spec("scipy.linalg")
    if spec is None:
        return
    before = set(sys.modules)
    sys.modules["scipy.linalg"] = importlib.util.module_from_spec(spec)
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        for name in set(sys.modules) - before:
            if name.partition("scipy.linalg")[0] == "":
                del sys.modules[name]


def prepare_numba() -> None:
    """``load_numba``, and what Numba does besides before it first compiles or loads a function."""
    load_numba()
    registry = importlib.import_module("numba.core.registry")
    registry.cpu_target.target_context.refresh()


_BESIDE = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
module, _, function = sys.argv.pop(1).partition(":")
getattr(importlib.import_module(module), function)()
"""


def beside(entry: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that finds modules as this one does and calls ``entry``, "module:function".

    It has ``arguments`` in ``sys.argv``. Its standard input and output are pipes: where this
    process ends, however it does, there is nothing more to read.
    """
    paths = json.dumps([str(path) for path in sys.path])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BESIDE, paths, entry, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        start_new_session=True,  # a Ctrl-C is for whoever waits for it
    )  # fmt: skip


@contextlib.contextmanager
def composing_once() -> Iterator[None]:
    """Hydra composes a configuration to find ``hydra.mode`` in it, then again to run it.

    For a command line that cannot set ``hydra.mode``: saves 0.05 s.
    """
    from hydra._internal.hydra import Hydra

    ask = Hydra.get_mode
    Hydra.get_mode = lambda self, config_name, overrides: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = ask  # type: ignore[method-assign]
