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
from omkl.commands import run as command
from omkl.experiment import run as runner
from omkl.report import console
from omkl.runs.run_folder import Run
from omkl.utils.wording import plain
from tests.compositions import compose
from tests.conftest import change, make_run_folder, seal

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


def altered(run, rng, n):
    """Replace one value of the run's result or configuration, n times, and seal the folder."""
    result, config = run.result, run.config
    everywhere = [("result.json", at) for at in places(result)]
    everywhere += [("config.yaml", at) for at in places(config)]
    for name, at in rng.sample(everywhere, n):
        way = rng.choice([way for way in WRONG if way != "half a character"])
        new = {"result.json": result, "config.yaml": config}
        new[name] = changed(new[name], at, WRONG[way])
        (run.folder / "result.json").write_text(json.dumps(new["result.json"]))
        (run.folder / "config.yaml").write_text(yaml.safe_dump(new["config.yaml"]))
        seal(run.folder)
        yield name, at, way


@pytest.mark.slow(4)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_strangers_folder_ends_a_report_or_hides_the_others(outputs, kind, capsys):
    folder, stranger = outputs[kind]
    command = ["show", "format=csv", "--outputs", str(folder)]
    for where in altered(stranger, random.Random(0), 60):
        assert report.main(command) == 0, where
        out, err = capsys.readouterr()
        assert "OMKL-GF" in out and "\x1b" not in out + err, where
        assert str(stranger.folder.name) in err or out.count("synthetic") > 1, where


@pytest.mark.slow(2)
def test_a_run_that_is_found_and_cannot_be_shown_is_named(tmp_path, monkeypatch, capsys):
    """As a folder without ``federated.max_upload`` whose checksums are right."""
    monkeypatch.chdir(tmp_path)
    typed = [*KINDS["federation"], *QUICK]
    assert command.main(typed) == 0
    (folder,) = tmp_path.glob("outputs/runs/synthetic/*")
    result = json.loads((folder / "result.json").read_text())
    del result["federated"]["max_upload"]
    change(folder, federated=result["federated"])
    capsys.readouterr()
    assert command.main(typed) == 1
    told = capsys.readouterr().err
    assert "force=true computes it again" in told
    assert folder.name in told and "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y\x1b[31m", "c"])
def test_names_that_a_terminal_would_obey_are_shown_as_text(tmp_path, capsys, target):
    """Names of columns and classes are others' texts: a run with them is whole, and shown."""
    rows = "\n".join(f"{n % 7},{n % 5},{'ab'[n % 2]}\x1b[2J" for n in range(60))
    (tmp_path / "x.csv").write_text(f"u\x85,y\x1b[31m,c\n{rows}\n")
    data = ["dataset=file", f"dataset.path={tmp_path}/x.csv", "seeds=1", "D=2"]
    task = ["algorithm=ridge"] if target != "c" else ["algorithm=omkc_da_p1", "task=classification"]
    settings = compose([*data, *task, f"outputs={tmp_path}", "tracking=none", "dataset.target=c"])
    settings = settings.replaced(dataset={**settings.dataset, "target": target})
    outcome = runner.run(settings)
    assert outcome.run.complete, outcome.run.result
    run = Run(outcome.run.folder)
    run.require_whole()
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
    for name in set(facts) - {"good"}:
        assert f"{name}.json cannot be read and is left out" in err
    assert "OMKL-GF" in (sweep / "page.html").read_text(encoding="utf-8")
