"""Run folders that strangers made: whatever they hold, the others are shown."""

import io
import json
import os

import pytest
from rich.console import Console

from omkl.commands import report
from omkl.experiment import run as runner
from omkl.report import console
from omkl.runs.run_folder import Run
from omkl.utils.wording import plain
from tests.compositions import compose


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
    good = {"number": 0, "status": "complete"}
    facts = {
        "good": good | {"folder": os.path.relpath(folder, sweep / "jobs")},
        "damaged": good | {"number": 1, "folder": os.path.relpath(damaged, sweep / "jobs")},
        "text": "no mapping",
        "number": good | {"number": "a", "folder": "."},
        "folder": good,
        "failed": {"number": 2, "status": "failed", "result": {"error": "x"}, "config": {}},
        "deep": None,
    }
    for name, fact in facts.items():
        text = "[" * 100_000 if fact is None else json.dumps(fact)
        (sweep / "jobs" / f"{name}.json").write_text(text)
    assert report.main(["page", "--outputs", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert err.count(".json cannot be read and is left out") == 5
    assert "1 more cannot be read either" in err
    assert "OMKL-GF" in (sweep / "page.html").read_text(encoding="utf-8")
