"""Run folders that strangers made: whatever they hold, the others are shown."""

import copy
import io
import json
import os
import random

import pytest
import yaml
from rich.console import Console

from omkl.commands import report
from omkl.experiment import run as runner
from omkl.notebook.results import Results
from omkl.report import console, figures
from omkl.runs import run_folder, schema
from omkl.runs.run_folder import Run
from omkl.runs.schema import CorruptFileError
from omkl.utils.wording import plain
from tests.compositions import compose
from tests.conftest import make_run_folder

ABSENT = object()
WRONG = {
    "text": "x\x1b[31mred",
    "huge": 10**400,
    "large": 10**300,
    "zero": 0,
    "list": [1, "a"],
    "null": None,
    "map": {"a": {"b": [1]}},
    "truth": True,
    "half a character": "a\ud800b",
    "nothing": ABSENT,
}


def places(value, at=()):
    """Where each value of a result is, and one of each list."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*at, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def changed(value, at, new):
    value = copy.deepcopy(value)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    if new is ABSENT:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return value


KINDS = {
    "intervals": ["algorithm=ie_gp", "interval=0.9"],
    "classes": ["algorithm=omkc_da_p1", "task=classification", "kernels=gaussian17"],
    "federation": ["algorithm=pof_mkl", "federation=iid", "clients=3"],
}
QUICK = ["seeds=2", "D=2", "figures=false", "tracking=none", "dataset.rows=60"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """A run of each kind, each in a folder of its own with another one beside it."""
    found = {}
    for kind, given in KINDS.items():
        found[kind] = tmp_path_factory.mktemp("stranger")
        make_run_folder(found[kind], "gf", "synthetic")
        outcome = runner.run(compose([*given, *QUICK, f"outputs={found[kind]}"]))
        found[kind] = found[kind], Run(outcome.run.folder)
    return found


def altered(run, tried):
    """The run folder with each value of its result and its configuration replaced, one by one.

    It is sealed anew each time, as a stranger can. Each place has one of the ways of ``WRONG``, and
    its turn in one kind of run: those that were ``tried`` are left out.
    """
    rng = random.Random(0)
    result = {key: value for key, value in run.content.items() if key != "seal"}
    for at in places(result):
        way = rng.choice(list(WRONG))
        if at not in tried:
            run_folder.write_result(run.folder, changed(result, at, WRONG[way]))
            yield at, way
    for at in places(run.config):
        way = rng.choice([way for way in WRONG if way != "half a character"])
        if ("config.yaml", *at) not in tried:
            text = yaml.safe_dump(changed(run.config, at, WRONG[way]))
            (run.folder / "config.yaml").write_text(text)
            run_folder.write_result(run.folder, result)
            yield ("config.yaml", *at), way


def test_results_of_runs_are_never_refused(outputs):
    """What a run writes is what a reader takes, whatever is in the data."""
    for _, run in outputs.values():
        assert run.problem is None
        without_seal = {key: value for key, value in run.content.items() if key != "seal"}
        schema.require(without_seal, run_folder.measure(without_seal).key)


@pytest.mark.slow(6)
def test_nothing_in_a_strangers_folder_ends_a_report_or_hides_the_others(outputs, tmp_path, capsys):
    tables = (["show"], ["show", "format=csv"], ["show", "rows=algorithm", "columns=dataset"])
    to, tried = tmp_path / "page.html", set()
    for folder, stranger in outputs.values():
        _ = stranger.content, stranger.config
        among = ["--outputs", str(folder)]
        for number, (at, way) in enumerate(altered(stranger, tried)):
            where = at, way
            tried.add(at)
            assert report.main([*tables[number % 3], *among]) == 0, where
            out, err = capsys.readouterr()
            assert "OMKL-GF" in out and "\x1b" not in out + err, where
            (out + err).encode()
            now = Run(stranger.folder)
            if now.problem is not None:
                assert str(stranger.folder) in err, "it is named"
                with pytest.raises(ValueError, match=r"result\.json|config\.yaml"):
                    Results(stranger.folder)
            elif now.complete:
                assert repr(Results(stranger.folder)), where
                console.print_run(now, Console(file=io.StringIO()))
                if number % 4 == 0:
                    assert report.main(["page", "dataset=*", f"--to={to}", *among]) == 0, where
                    assert "OMKL-GF" in to.read_text(encoding="utf-8")
                    capsys.readouterr()


@pytest.mark.slow(2)
def test_figures_of_a_strangers_run_are_refused_by_name(tmp_path, run_folder_maker, capsys):
    """What the schema lets pass and a figure cannot draw costs this figure alone."""
    folder = run_folder_maker(tmp_path, "raker", "synthetic")
    result = json.loads((folder / "result.json").read_text())
    spread = {name: 1.0 for name in ("log_loss", "coverage_50", "coverage_90", "width_90")}
    run_folder.write_result(folder, result | {"spread": spread | {"interval_score_90": 1.0}})
    beside = make_run_folder(tmp_path, "rfomkr", "synthetic")
    figures.all_figures(Run(folder), tmp_path)  # spread without windows: nothing to draw
    run_folder.write_result(folder, result | {"seeds": [0, 1, "2"]})
    assert report.main(["figures", "--outputs", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert str(beside) in out and "seeds.2 is '2', which is no whole number" in err


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y\x1b[31m", "c"])
def test_names_that_a_terminal_would_obey_are_shown_as_text(tmp_path, capsys, target):
    """Names of columns and classes are others' texts: a run with them is whole, and shown."""
    rows = "\n".join(f"{n % 7},{n % 5},{'ab'[n % 2]}\x1b[2J" for n in range(60))
    (tmp_path / "x.csv").write_text(f"u\x85,y\x1b[31m,c\n{rows}\n")
    data = ["dataset=file", f"dataset.path={tmp_path}/x.csv", "seeds=1", "D=2"]
    task = ["algorithm=ridge"] if target != "c" else ["algorithm=omkc_da_p1", "task=classification"]
    settings = compose([*data, *task, f"outputs={tmp_path}", "tracking=none", "dataset.target=c"])
    settings["dataset"]["target"] = target
    outcome = runner.run(settings)
    assert outcome.run.complete, outcome.run.result
    run = Run(outcome.run.folder)
    assert run.problem is None and Results(run.folder)["stream"]["target"] == target
    assert run.result["stream"]["target"] == target.replace("\x1b", "\\x1b")
    stream = io.StringIO()
    console.print_run(run, Console(file=stream, width=120))
    assert report.main(["show", "--outputs", str(tmp_path), "format=csv"]) == 0
    assert "\x1b" not in stream.getvalue() + capsys.readouterr().out
    again = runner.run(settings)
    assert again.status == "reused", "it is not computed again and again"


def test_texts_that_a_terminal_would_obey():
    assert plain("a\n\tb") == "a\n\tb"
    for code in {*range(32), *range(127, 160), 0x202E, 0x2066, 0xD800} - {*b"\n\t"}:
        shown = plain(chr(code))
        assert len(shown) > 1 and plain(f"a{chr(code)}b") == f"a{shown}b", code


def test_a_page_leaves_out_what_a_strangers_sweep_does_not_say(tmp_path, run_folder_maker, capsys):
    folder = run_folder_maker(tmp_path, "gf", "synthetic")
    damaged = run_folder_maker(tmp_path, "raker", "synthetic")
    (damaged / "result.json").write_text("{}")
    sweep = tmp_path / "sweeps" / "one"
    (sweep / "jobs").mkdir(parents=True)
    (sweep / "sweep.json").write_text("{}")
    good = {"number": 0, "status": "complete", "tracked": False}
    facts = {
        "good": good | {"folder": os.path.relpath(folder, sweep / "jobs")},
        "damaged": good | {"number": 1, "folder": os.path.relpath(damaged, sweep / "jobs")},
        "text": "no mapping",
        "number": good | {"number": "a", "folder": "."},
        "folder": good,
        "failed": {"number": 2, "status": "failed", "result": {"error": "x"}, "config": {}},
        "deep": ABSENT,
    }
    for name, fact in facts.items():
        text = "[" * 100_000 if fact is ABSENT else json.dumps(fact)
        (sweep / "jobs" / f"{name}.json").write_text(text)
    assert report.main(["page", "--outputs", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    for name in set(facts) - {"good", "damaged"}:
        assert f"{name}.json is damaged and left out" in err
    assert f"{damaged} is damaged and left out" in err
    assert "OMKL-GF" in (sweep / "page.html").read_text(encoding="utf-8")
    assert [fact["number"] for fact, _ in run_folder.facts_of_jobs(sweep)] == [0, 1]


def test_a_configuration_may_be_infinite_and_not_too_large():
    schema.require_config({"algorithm": {"R": float("inf")}})
    with pytest.raises(CorruptFileError, match="too large"):
        schema.require_config({"algorithm": {"R": 10**400}})
