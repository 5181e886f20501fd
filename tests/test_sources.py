"""What can change a number: which files stand in the fingerprint of compiled code and of a run."""

import ast
import functools
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import omkl
from omkl import algorithms, federated
from omkl.core import compiler
from omkl.experiment import metrics
from omkl.runs import provenance
from omkl.utils import sources

MODULES = {
    ".".join(("omkl", *path.relative_to(sources.PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sources.PACKAGE.rglob("*.py")
}
COMPILERS = {
    "compiled",
    "inlined",
    "reassociating",
    "dispatch",
    "for_this_process",
    "compiled_uncached",
}
COMPILERS |= {"register"}  # of the engine: compiles select, predict and update


@functools.cache
def imports(path, lazy, typing=False):
    """Modules of the package that a file imports; lazy: inside functions too; typing: for hints."""
    found = set()

    def visit(node):
        for child in ast.iter_child_nodes(node):
            for_hints = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if for_hints and not typing:
                continue
            if isinstance(child, ast.FunctionDef) and not lazy:
                continue
            if isinstance(child, ast.ImportFrom) and child.module:
                for name in child.names:
                    inner = f"{child.module}.{name.name}"
                    found.update({inner if inner in MODULES else child.module} & set(MODULES))
            if isinstance(child, ast.Import):
                found.update({name.name for name in child.names} & set(MODULES))
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(found)


def reached(start, lazy):
    """All modules that the modules ``start`` import, and they in turn."""
    found, todo = set(start), list(start)
    while todo:
        new = imports(MODULES[todo.pop()], lazy) - found
        found |= new
        todo += new
    return found


def modules_of(files):
    return {name for name, path in MODULES.items() if path in set(files)}


def decorated(path):
    """Names by which a file has the compiler at hand."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in (
            "omkl.core.compiler",
            "omkl.core.protocol",
        ):
            names |= {name.name for name in node.names} & COMPILERS
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = getattr(node, "module", None) or node.names[0].name
            names |= {module} if module.split(".")[0] == "numba" else set()
    return names


def test_names_that_are_left_out_exist():
    for left_out in (sources.COMPILED, sources.VIEWS):
        for name in left_out:
            place = sources.PACKAGE / name
            assert place.is_dir() if name.endswith("/") else place.is_file(), name


def test_nothing_compiled_is_left_out():
    used = {p.relative_to(sources.PACKAGE).as_posix(): decorated(p) for p in MODULES.values()}
    assert used.pop("utils/sources.py") == {"numba"}  # it asks for names of the machine's parts
    compiled = {p.relative_to(sources.PACKAGE).as_posix() for p in sources.files(sources.COMPILED)}
    assert not {place: names for place, names in used.items() if names and place not in compiled}
    assert used["core/protocol.py"] and used["algorithms/raker.py"]  # it does find some
    # Compiled code may hold constants of any module that its own module imports.
    compiling = {sources.PACKAGE / place for place, names in used.items() if names}
    kept = modules_of(sources.files(sources.COMPILED))
    names_alone = {"omkl", "omkl.federated", "omkl.utils"}
    # Files, names, words of messages, the version, and tests of settings before a run.
    ground = (
        "conf", "constraints", "disk", "outside", "registry", "sources", "version", "wording"
    )  # fmt: skip
    names_alone |= {f"omkl.utils.{name}" for name in ground}
    assert reached(modules_of(compiling), lazy=False) - kept <= names_alone


@pytest.mark.skipif(not compiler.ENABLED, reason="nothing is compiled")
def test_every_compiled_function_is_in_a_source():
    from numba.core.dispatcher import Dispatcher

    for module in pkgutil.walk_packages(omkl.__path__, "omkl."):
        if ".flower" not in module.name and ".report" not in module.name:
            importlib.import_module(module.name)
    found = {
        Path(value.py_func.__code__.co_filename)
        for name, module in list(sys.modules.items())
        if name.startswith("omkl.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }
    ours = {path for path in found if sources.PACKAGE in path.parents}
    assert len(ours) > 3 and ours <= set(sources.files(sources.COMPILED))


def test_what_a_job_imports_is_in_the_digest():
    digest = modules_of(sources.files(without=sources.VIEWS))
    learners = {name for name in MODULES if ".algorithms" in name}
    used = reached({"omkl.experiment.run", *learners}, lazy=True)
    assert "omkl.core.feedback_graph" in used & digest and "omkl.core.protocol" in digest
    assert used - digest <= {"omkl"}
    assert set(sources.files(sources.COMPILED)) <= set(sources.files(without=sources.VIEWS))


def test_an_algorithm_is_made_of_what_it_imports_and_of_no_other():
    """So an edit of one, or a new one, leaves the machine code of the others on disk."""

    def made_of(module):
        return {path.stem for path in sources.files_of([module])} - {"__init__"}

    assert made_of("omkl.algorithms.raker") == {"raker", "parts"}
    assert made_of("omkl.algorithms.conformal") == {"conformal", "gf", "raker", "parts"}
    assert made_of("omkl.algorithms.omkc") == {"omkc"}
    assert made_of("omkl.federated.algorithms.vm_kofl") == {"vm_kofl"}
    assert made_of("omkl.core.feedback_graph") == made_of("elsewhere.raker") == set()
    prints = {sources.fingerprint(f"omkl.algorithms.{name}") for name in ("raker", "gf", "sfg")}
    assert len(prints) == 3 and sources.fingerprint() not in prints


def test_what_learners_share_imports_no_algorithm():
    shared = modules_of(sources.shared_files())
    assert len(shared) > 30
    for name in shared:
        assert not {used for used in imports(MODULES[name], True) if ".algorithms" in used}, name


def test_every_step_of_an_algorithm_is_in_a_file_that_it_is_made_of():
    """Compiled code finds steps by types, whose modules name its files (``cache.KeptCode``)."""
    for name in algorithms.names():
        algorithms.load(name)
    for name in federated.names():
        federated.load(name)
    files = set(sources.files(sources.COMPILED)) - set(sources.shared_files())
    n_steps = 0
    for module in [m for name, m in sys.modules.items() if name.startswith("omkl.")]:
        for step in [f for f in vars(module).values() if hasattr(f, "_clear_cache")]:
            for kind, function in step.registry.items():
                file = Path(function.__code__.co_filename)
                if file in files and kind.__module__.startswith("omkl."):  # not one of a test's own
                    assert file in sources.files_of([kind.__module__]), (kind, function)
                    n_steps += 1
    assert n_steps > 200


def test_a_job_imports_no_algorithm_but_those_that_its_numbers_are_stamped_with():
    """So a finished run of raker is found again after another algorithm was edited."""
    script = """
import sys
from omkl.utils import conf
from omkl.utils import sources
from omkl.experiment import job, run
from omkl.config.compose import compose
prepared = run.prepare(compose(["algorithm=amkl_aks", "dataset.rows=30", "D=2"]))
prepared.warm_up()
loaded = sources.files_of(name for name in sys.modules if ".algorithms." in name)
counted = sources.files_of(job.learners_of(prepared))
print(*[path.stem for path in loaded if path not in counted])
print(*[path.stem for path in counted])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    not_counted, counted = done.stdout.split("\n")[:2]
    assert not_counted == ""
    assert {"active", "least_squares"} < set(counted.split()) and "gf" not in counted.split()


def forget():
    """Make the digests anew."""
    for of_sources in (sources._fingerprint_with, sources._imported, sources._files_named):
        of_sources.cache_clear()
    provenance.sources_digest.cache_clear()


@pytest.fixture
def other_sources(monkeypatch):
    """Put another text in place of a source, as if the package had been imported with it."""

    def put(place=None):
        changed = dict(plain)
        if place is not None:
            path = sources.PACKAGE / place
            changed[path] = sources.Source("f" * 64, changed.get(path, NOWHERE).state)
        monkeypatch.setattr(sources, "SOURCES", changed)
        forget()

    plain = sources.SOURCES
    yield put
    monkeypatch.undo()
    forget()


NOWHERE = sources.Source("", ())
PLACES = [path.relative_to(sources.PACKAGE).as_posix() for path in sources.SOURCES]


def test_any_edit_changes_the_stamps_that_it_should(other_sources):
    """Of every module: of machine code where something is compiled, of results but for views."""
    other_sources()
    code, stamp = sources.fingerprint(), provenance.sources_digest()
    for place in (*PLACES, "core/a_new_file.py", "datasets/a_new_file.py"):
        other_sources(place)
        shared = place.startswith(sources.COMPILED) and not place.startswith(sources.ALGORITHMS)
        assert (sources.fingerprint() != code) == shared, place
        view = place.startswith(sources.VIEWS)
        assert (provenance.sources_digest() == stamp) == view, place


def test_an_edit_of_an_algorithm_is_one_for_its_own_learners(other_sources):
    raker = ("omkl.algorithms.raker", *metrics.BASELINE_MODULES)
    other_sources()
    stamp = provenance.sources_digest(raker)
    for place, same in (("algorithms/gf.py", True), ("algorithms/least_squares.py", False)):
        other_sources(place)
        assert (provenance.sources_digest(raker) == stamp) == same, place
