"""The drawing of the imports: rooms above import rooms below, and no circle."""

import ast
import functools
from pathlib import Path

import pytest

from omkl.utils import sources

MODULES = {
    ".".join(("omkl", *path.relative_to(sources.PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sources.PACKAGE.rglob("*.py")
}
# Modules that import each other, one of them inside a function, and why.
CIRCLES: dict[tuple[str, ...], str] = {}
# Private parts of libraries that are used all the same, by module, and why there is no public way.
PRIVATE = {
    "omkl.core.cache": (
        "Numba's own cache has one index per function for all processes: two that compile at once "
        "can write their code under each other's types; a full disk or a damaged file ends a run"
    ),
    "omkl.core.compiler": (
        "the cache is set where Numba's own would be, and pieces that are inlined everywhere are "
        "optimised once, with their entry point: compiling takes six tenths of the time"
    ),
}
# Libraries that one folder alone imports, or that and one module.
GUESTS = {
    "mlflow": "omkl.report.tracking",
    "flwr": ("omkl.federated.flower", "omkl.experiment.deployed"),
    "numba": ("omkl.core", "omkl.utils.sources"),  # which asks it what the processor is
}


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


def reached(start, lazy, closed=()):
    """All modules that the modules ``start`` import, and they in turn but for those ``closed``."""
    found, todo = set(start), list(start)
    while todo:
        name = todo.pop()
        new = set() if name in closed else imports(MODULES[name], lazy) - found
        found |= new
        todo += new
    return found


def drawing(lazy, typing=False):
    return {name: imports(path, lazy, typing) - {name} for name, path in MODULES.items()}


def room(name):
    """The folder below omkl that a module is in, or the module itself."""
    return name.split(".")[1] if "." in name else name


def circles(graph):
    """Groups of modules that import each other, by way of others as well."""
    below = {name: set(found) for name, found in graph.items()}
    todo = True
    while todo:
        todo = False
        for found in below.values():
            more = set().union(*(below[name] for name in found)) - found
            found |= more
            todo = todo or bool(more)
    return {
        tuple(sorted({name} | {n for n in found if name in below[n]}))
        for name, found in below.items()
        if name in found
    }


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {("b", "c")}


def test_no_circles_but_those_declared():
    assert circles(drawing(lazy=False)) == set()
    assert circles(drawing(lazy=True)) == set(CIRCLES)


def test_no_circles_of_files_or_folders_for_type_hints_either():
    """``omkl`` itself hands on the names of ``omkl.api`` and is left out."""
    graph = drawing(lazy=True, typing=True)
    graph = {name: found - {"omkl"} for name, found in graph.items() if name != "omkl"}
    assert circles(graph) == set()
    folders = {room(name): set() for name in graph}
    for name, found in graph.items():
        folders[room(name)] |= {room(other) for other in found} - {room(name)}
    assert circles(folders) == set()


@pytest.mark.parametrize(
    "lowest, below", [("omkl.utils", ()), ("omkl.core", ("omkl.utils",))], ids=["utils", "core"]
)
def test_the_lowest_rooms_import_nothing_above_them(lowest, below):
    members = {name: found for name, found in drawing(True, typing=True).items() if lowest in name}
    assert len(members) > 9
    for name, found in members.items():
        assert all(other.startswith((lowest, *below)) for other in found), (name, found)


@pytest.mark.parametrize("room", ["omkl.runs", "omkl.report"])
def test_what_reads_and_draws_runs_knows_no_learner(room):
    members = {name for name in MODULES if name.startswith(room)}
    assert len(members) > 3
    learners = ("omkl.algorithms", "omkl.federated", "omkl.core.learner", "omkl.core.protocol")
    learners += ("omkl.experiment",)
    # Defaults are read from the schema, whose settings have functions for learners.
    schema = "omkl.config.schema"
    found = reached(members, lazy=True, closed=(schema,)) | reached({schema}, lazy=False)
    assert [name for name in found if name.startswith(learners)] == []
    for name in members:  # names and titles of learners come from their text
        text = MODULES[name].read_text(encoding="utf-8")
        assert "registry.load" not in text and "import_module" not in text, name
        assert "outside.load" not in text and "declare(" not in text, name


def test_a_run_knows_none_of_its_viewers():
    """They are told of it by ``omkl.experiment.viewers``, which knows both."""
    members = {name for name in MODULES if name.startswith("omkl.experiment")}
    members -= {"omkl.experiment.viewers"}
    assert len(members) > 3
    viewers = ("omkl.report", "omkl.experiment.viewers", "omkl.commands")
    assert [name for name in reached(members, lazy=True) if name.startswith(viewers)] == []


def test_large_libraries_have_one_host():
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                given = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                host = GUESTS.get(str(given).partition(".")[0], name)
                assert name.startswith(host), (name, given)


def test_the_map_of_contributing_is_the_list_of_folders():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {name.split(".")[1] for name in MODULES if "." in name}
    for room in rooms:
        place = f"{room}.py" if MODULES[f"omkl.{room}"].name == f"{room}.py" else f"{room}/"
        assert f"| `omkl/{place}` |" in text, place


def test_private_names_stay_at_home():
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("omkl"):
                private = [
                    n.name for n in node.names if n.name.startswith("_") and n.name != "__version__"
                ]
                assert not private, (name, private)


def private_parts(path):
    """Names with an underscore that a file takes from a library, or from an object of one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{name.name}" for name in node.names]
        for name in names:
            if not name.startswith(("omkl", "__future__")) and "._" in f".{name}":
                yield name
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            owner = ast.unparse(node.value)
            ours = owner.startswith(("self", "cls", "super()")) or node.attr in OF_NAMEDTUPLES
            if not ours and not node.attr.startswith("__"):
                yield f"{owner}.{node.attr}"


OF_NAMEDTUPLES = {"_replace", "_fields", "_asdict", "_make", "_field_defaults"}


def test_private_parts_of_libraries_are_used_where_there_is_no_public_way():
    """Private parts of our own classes are used in their own module alone."""
    used = {}
    for name, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        of_our_own = {
            n.attr
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and ast.unparse(n.value) in ("self", "cls")
        } | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        found = {part for part in private_parts(path) if part.rpartition(".")[2] not in of_our_own}
        if found:
            used[name] = found
    assert used.keys() == PRIVATE.keys(), used
