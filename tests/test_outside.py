"""Algorithms and kernel families of modules outside the package: ``docs/template``, and changed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from omkl import algorithms
from omkl.checks import learners
from omkl.commands import check, report
from omkl.config import reference
from omkl.config.overrides import UsageError, read_jobs
from omkl.core.kernels import FAMILIES
from omkl.experiment.job import own_modules
from omkl.experiment.run import prepare
from omkl.runs.provenance import stamp_of
from omkl.runs.run_folder import Run
from omkl.utils import conf, outside, registry, wording

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "docs" / "template"
QUICK = ["kernels=gaussian17", "D=2", "seeds=1", "stream.limit=20", "tracking=none"]


def forget():
    """As in a new process."""
    outside._declared.clear()
    outside.entry_points.cache_clear()
    outside.digest_of.cache_clear()
    wording.tell.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The template's package, where Python finds it; nothing names it yet."""
    place = tmp_path / "installed"
    shutil.copytree(TEMPLATE / "mypkg", place / "mypkg")
    monkeypatch.syspath_prepend(place)
    forget()
    yield place / "mypkg"
    forget()


def install(package: Path, name: str = "mypkg", entry: str = "fixed_share = mypkg.fixed_share"):
    """What pip leaves of a package with this entry point."""
    info = package.parent / f"{name}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[omkl.algorithms]\n{entry}\n")
    outside.entry_points.cache_clear()


def own_yaml(package: Path, name: str = "mine") -> Path:
    """A folder for --config-dir whose algorithm ``mine`` is the template's."""
    given = (package / "conf" / "algorithm" / "fixed_share.yaml").read_text()
    folder = package.parent / "own" / "algorithm"
    folder.mkdir(parents=True, exist_ok=True)
    given = given.replace("fixed_share", name) + "module: mypkg.fixed_share\n"
    (folder / f"{name}.yaml").write_text(given)
    shutil.rmtree(package / "conf", ignore_errors=True)
    return folder.parent


# --- found ----------------------------------------------------------------------------------------


def test_an_installed_package_is_found_without_being_imported(package):
    assert "fixed_share" not in algorithms.names()
    install(package)
    assert algorithms.names()[-1] == "fixed_share" and "fixed_share" in conf.names("algorithm")
    assert registry.title("fixed_share") == "Fixed share"
    assert "sharpness=2.0, share=0.01" in reference.help_page("algorithms", conf.groups())
    assert "mypkg" not in sys.modules
    found = algorithms.load("fixed_share")
    assert (found.name, found.module) == ("fixed_share", "mypkg.fixed_share")
    jobs = read_jobs(["algorithm=raker,fixed_share", "algorithm.share=0.1,0.2"], sweep=True)
    assert [one.algorithm.params.get("share") for one in jobs.settings] == [None, None, 0.1, 0.2]


def test_a_module_is_named_on_the_command_line(package):
    (config,) = read_jobs(["algorithm.module=mypkg.fixed_share", "algorithm.share=0.1"]).settings
    assert dict(config.algorithm) == {
        **algorithm_of(package), "module": "mypkg.fixed_share", "share": 0.1
    }  # fmt: skip


def algorithm_of(package: Path) -> dict:
    return conf.entry("algorithm", "fixed_share", [package / "conf"])


def test_a_yaml_beside_names_its_module(package):
    folder = own_yaml(package)
    (config,) = read_jobs(["algorithm=mine", "algorithm.share=0.1"], [folder]).settings
    prepare(config.replaced(seeds=1))
    assert algorithms.load("mine").module == "mypkg.fixed_share"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("mypkg.nothing", "there is no module mypkg.nothing: install its package, or put the fol"),
        ("mypkg", r"there is no algorithm/mypkg.yaml with the parameters of mypkg, neither in the"),
        ("omkl.algorithms.gf", "is in omkl itself: leave module out"),
        ("a/b", "module='a/b' is no name of a module, such as mypkg.fixed_share"),
        ("mypkg.gf", "gf of mypkg.gf needs another name: omkl has one of that name"),
    ],
)
def test_what_cannot_be_is_told(package, typed, told):
    (package / "gf.py").write_text("")
    with pytest.raises(UsageError, match=told):
        read_jobs([f"algorithm.module={typed}"])


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("algorithm = register(", "found = register(", "mypkg.fixed_share has no algorithm where"),
        ("def update(", "def learn(", "mypkg.fixed_share registers an algorithm without update"),
        ("import math", "import mathh", r"No module named 'mathh' \(.*fixed_share.py, line \d+"),
        ("def init(", "def init(:", r"fixed_share cannot be imported: SyntaxError: .*line \d+\)$"),
    ],
)
def test_a_module_that_lacks_something_is_named(package, before, after, told):
    path = package / "fixed_share.py"
    path.write_text(path.read_text().replace(before, after))
    install(package)
    with pytest.raises(outside.ModuleProblem, match=told):
        algorithms.load("fixed_share")
    assert algorithms.load("raker"), "the others do as ever"


def test_names_that_two_claim_are_left_out_aloud(package, capsys):
    install(package, "first")
    install(package, "second", "fixed_share = other.module\nraker = mypkg.fixed_share")
    assert "fixed_share" not in algorithms.names()
    told = capsys.readouterr().err
    assert "fixed_share is left out, since it is mypkg.fixed_share of first and other.mod" in told
    assert "raker of mypkg.fixed_share is left out: omkl has one of that name" in told
    assert algorithms.load("raker").module == "omkl.algorithms.raker"


FAMILY = """
from mypkg import fixed_share as plain
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import RANDOM_FEATURES
"""
MEMBER = """

@register_as("own/NAME", representation=RANDOM_FEATURES)
class NAME:
    '''NAME share: shares in a family.'''

    class Params(plain.Params):
        pass

    State, init = plain.State, plain.init
    select, predict, update = plain.select, plain.predict, plain.update
"""


def family_of(package: Path) -> None:
    """Write a module with two algorithms that have the steps of the template."""
    members = [MEMBER.replace("NAME", name) for name in ("slow", "fast")]
    (package / "family.py").write_text(FAMILY + "".join(members))
    given = (package / "conf" / "algorithm" / "fixed_share.yaml").read_text()
    (package / "conf" / "algorithm" / "own").mkdir()
    for name in ("own/slow", "own/fast"):
        path = package / "conf" / "algorithm" / f"{name}.yaml"
        path.write_text(given.replace("fixed_share", name))


def test_a_module_may_hold_a_family_of_algorithms(package, capsys):
    family_of(package)
    typed = ["algorithm.module=mypkg.family", "algorithm=own/fast"]
    (config,) = read_jobs([*typed, *QUICK]).settings
    assert (config.algorithm.name, config.algorithm.module) == ("own/fast", "mypkg.family")
    assert prepare(config).settings.algorithm.params["share"] == 0.01
    assert registry.title("own/slow") == "slow (own)"
    assert registry.summary("own/slow") == "shares in a family"
    assert algorithms.load("own/slow").Params is not algorithms.load("own/fast").Params
    with pytest.raises(UsageError, match=r"mypkg\.family has own/slow, own/fast: choose one"):
        read_jobs(typed[:1])
    assert check.main(["mypkg.family", "--only", "state"]) == 0
    assert capsys.readouterr().out.count("passed  state") == 2


def test_entry_points_name_the_members_of_a_family(package):
    family_of(package)
    install(package, entry="own/fast = mypkg.family\nraker = mypkg.family")
    assert algorithms.names()[-1] == "own/fast"
    assert algorithms.load("own/fast").module == "mypkg.family"
    assert algorithms.load("raker").module == "omkl.algorithms.raker"


# --- what numbers come from -----------------------------------------------------------------------


def stamped(overrides):
    """A job's settings, its modules and the stamp of its numbers, as in a new process."""
    forget()
    (config,) = read_jobs(overrides).settings
    job = prepare(config)
    modules = own_modules(job)
    return job.settings, modules, stamp_of(job.stream.provenance, modules)


def test_an_edit_of_the_package_makes_another_run(package):
    named = ["algorithm.module=mypkg.fixed_share", *QUICK]
    config, modules, stamp = stamped(named)
    assert config.algorithm.module == "mypkg.fixed_share"
    assert config.algorithm.params["share"] == 0.01 and "module" not in config.algorithm.params
    assert list(modules) == ["mypkg.fixed_share"]
    assert stamped(named)[1:] == (modules, stamp)
    install(package)
    assert stamped(["algorithm=fixed_share", *QUICK]) == (config, modules, stamp)
    assert stamped(["algorithm=raker", *QUICK])[1] == {}
    (package / "shares.py").write_text("SHARE = 0.1\n")
    edited, others, other_stamp = stamped(named)
    assert edited == config and others != modules and other_stamp != stamp


def test_a_kernel_family_of_ones_own_is_named_by_the_dictionary(package, tmp_path):
    (package / "conf" / "kernels").mkdir()
    (package / "conf" / "kernels" / "ricker.yaml").write_text(
        "name: ricker\nmodule: mypkg.ricker\nparts: [{family: ricker, bandwidth: [0.5, 1.0]}]\n"
    )
    (package / "ricker.py").write_text(
        "from omkl.core.kernels import Gaussian, register\n\n\n"
        "@register\nclass Ricker(Gaussian):\n    name = 'ricker'\n    overlaps = {}\n"
    )
    install(package)
    try:
        config, modules, _ = stamped(["algorithm=sfg", "kernels=ricker", *QUICK[1:]])
        assert config.kernels["module"] == "mypkg.ricker" and list(modules) == ["mypkg.ricker"]
    finally:
        FAMILIES.pop("ricker", None)
    (package / "ricker.py").unlink()
    forget()
    with pytest.raises(outside.ModuleProblem, match=r"there is no module mypkg\.ricker: install"):
        prepare(*read_jobs(["kernels=ricker"]).settings)


# --- a data set of one's own ----------------------------------------------------------------------


@pytest.mark.parametrize("place", ["--config-dir", "beside the module"])
def test_a_data_set_of_ones_own_is_one_yaml(package, tmp_path, place):
    """Like the package's own: chosen by its name, which the run has too."""
    rows = [f"{a / 50},{a % 7},{a / 50 - a % 7}" for a in range(50)]
    (tmp_path / "prices.csv").write_text("\n".join(["size,age,price", *rows]))
    own = package / "conf" if place == "beside the module" else tmp_path / "own"
    (own / "dataset").mkdir(parents=True)
    (own / "dataset" / "prices.yaml").write_text(
        f"defaults: [file, _self_]\nname: prices\npath: {tmp_path}/prices.csv\ntarget: price\n"
    )
    besides = [] if place == "beside the module" else [own]
    if place == "beside the module":
        install(package)
    typed = ["dataset=prices", "algorithm=raker", "dataset.inputs=[size]"]
    job = prepare(*read_jobs(typed, besides).settings)
    assert job.settings.dataset["name"] == "prices" and job.stream.n_inputs == 1
    with pytest.raises(UsageError, match=r"no dataset.targe with dataset=prices. Did you mean"):
        read_jobs(["dataset=prices", "dataset.targe=age"], besides)


# --- checked --------------------------------------------------------------------------------------

CHEAP = "interface,state,draws"  # nothing is compiled for these


def test_the_template_passes_its_checks(package, capsys):
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    ((name, module),) = project["entry-points"]["omkl.algorithms"].items()
    install(package, project["name"], f"{name} = {module}")
    assert check.main(["fixed_share", "--only", CHEAP]) == 0
    assert capsys.readouterr().out == (
        "Fixed share (mypkg.fixed_share)\n  passed  interface\n  passed  state\n"
        "  skipped draws: draws nobody\n2 passed, 1 skipped\n\n"
    )
    path = TEMPLATE / "tests" / "test_fixed_share.py"
    spec = importlib.util.spec_from_file_location("template_test", path)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    tests.test_a_kernel_that_was_wrong_keeps_its_share(learners.Case("fixed_share"))


def test_the_checks_say_what_fails_and_how_it_is_declared(package, capsys):
    folder, path = own_yaml(package), package / "fixed_share.py"
    text = path.read_text().replace("\nCost ", "\nPrice ")
    path.write_text(text.replace("FAILURES = {", 'FAILURES = {"state": "it has none",'))
    asked = ["mine", f"--config-dir={folder}", "--only", "interface,state"]
    assert check.main(asked) == 1
    told = capsys.readouterr().out
    assert "FAILED  interface\n          Check that docstring and YAML file are complete:" in told
    assert "What came: AssertionError: the docstring lacks ['Cost']" in told
    assert f'say so in {path}:\n              EXPECTED_FAILURES = {{"interface": "' in told
    assert "FAILED  state: it passes, and is declared to fail. Take it out of EXPECTED" in told
    assert told.endswith("2 failed\n\n") and "Traceback" not in told
    check.main([*asked, "--traceback"])
    assert "Traceback" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["mypkg.bare"], "there is no algorithm/bare.yaml with the parameters of mypkg.bare"),
        (["raker", "--only=honest"], "there is no check honest. Did you mean honesty?"),
        (["raker", "--config-dir=nowhere"], "there is no folder nowhere (--config-dir)"),
    ],
)
def test_what_cannot_be_checked_is_told(package, capsys, asked, told):
    for name in ("gf", "bare"):
        (package / f"{name}.py").write_text("")
    assert check.main(asked) == 2
    assert told in capsys.readouterr().err


# --- trusted is what the user names, and nothing else ---------------------------------------------


def test_a_run_folder_makes_omkl_import_nothing(package, run_folder_maker, tmp_path, capsys):
    (package / "fixed_share.py").write_text("raise SystemExit('imported')\n")
    outputs = tmp_path / "outputs"
    params = {"module": "mypkg.fixed_share", "eta": 0.1, "M": 5}
    folder = run_folder_maker(outputs, "fixed_share", params=params)
    assert Run(folder).config["algorithm"]["module"] == "mypkg.fixed_share"
    install(package)  # not even then
    assert report.main(["show", "--outputs", str(outputs)]) == 0
    assert "fixed_share" in capsys.readouterr().out
    assert "mypkg" not in sys.modules


# --- as it is typed -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_in_worker_processes(package):
    """Without the compiler, which would take most of the time."""
    install(package)
    command = [
        Path(sys.executable).with_name("omkl-run"), "-m", "algorithm=raker,fixed_share",
        "algorithm.share=0.1", "--jobs=2", *QUICK, "figures=false",
    ]  # fmt: skip
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", str(ROOT))])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}

    done = subprocess.run(
        command, cwd=package.parent, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "raker has no algorithm.share and runs without it." in done.stdout
    assert "fixed_share on synthetic" in done.stdout
    (folder,) = package.parent.glob("outputs/runs/synthetic/fixed_share-*")
    assert list(Run(folder).result["modules"]) == ["mypkg.fixed_share"]
