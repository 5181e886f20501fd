"""``omkl-run`` as it is typed: started, or where the start does not matter in a fork."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from omkl.commands.run import main
from omkl.config.overrides import UsageError, expand, read_jobs
from omkl.experiment import viewers
from omkl.report import figures
from tests.commands import forks

ROOT = Path(__file__).parents[2]
OMKL_RUN = Path(sys.executable).with_name("omkl-run")
TINY = ["kernels=gaussian17", "D=4", "seeds=2", "tracking=none", "figures=false"]


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80", "TERM": "xterm", "OMKL_OFFLINE": "1"}


def omkl_run(
    folder: Path, *arguments: str, start: bool = False, patience: float = 120.0
) -> subprocess.CompletedProcess[str]:
    if start:
        done = subprocess.run(
            [OMKL_RUN, *arguments], cwd=folder, env=environment(), capture_output=True, text=True,
            timeout=patience,
        )  # fmt: skip
    else:
        done = forks.omkl_run(arguments, folder, environment(), patience)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def write_table(path: Path, rows: int = 120, spoiled: bool = False) -> None:
    rng = np.random.default_rng(0)
    lines = ["a,b,price", *(f"{a:.3f},{b:.3f},{a - b * b:.3f}" for a, b in rng.random((rows, 2)))]
    if spoiled:
        lines[50] = "0.5,none at all,0.5"
    path.write_text("\n".join(lines) + "\n")


def results_of(outputs: Path) -> dict[str, bytes]:
    return {p.parent.name: p.read_bytes() for p in outputs.glob("runs/*/*/result.json")}


# --- what is typed ----------------------------------------------------------------


def refusal(*typed: str, sweep: bool = False, **options) -> str:
    with pytest.raises(UsageError) as told:
        read_jobs(typed, sweep=sweep, **options)
    return str(told.value)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("algorithm=rakr", "there is no algorithm=rakr. Did you mean raker? There are: raker, "),
        (
            "algorithm=gf algorithm.etta=1",
            "no algorithm.etta with algorithm=gf. Did you mean algor",
        ),
        ("algoritm=gf", "there is no algoritm. Did you mean algorithm?"),
        ("algorithm.limit=9", "there is no algorithm.limit. Did you mean stream.limit?"),
        ("algorithm=gf,raker", "algorithm=gf,raker has several values: add -m to run each"),
        ("~algorithm", "a run has all settings, and none can be left out"),
        ("algorithm.name=5", "write algorithm=NAME"),
        ("raker", "write key=value, as in algorithm=gf. Did you mean algorithm=raker?"),
        ("stream.limit", "'stream.limit' is no setting: write key=value"),
        ("a.csv b.csv", "a.csv and b.csv: a run reads one file"),
        ("a.csv dataset=naval", "a.csv is the data set already: leave dataset= out"),
        ("a.csv traget=y", "there is no traget. Did you mean target?"),
        ("D=[1", "cannot read 'D=[1' ("),
        ("hydra.run.dir=x", "hydra.run.dir=x: write outputs=FOLDER"),
        ("hydra/launcher=joblib", "write -m --jobs=N"),
        ("hydra.sweep.subdir=x", "omkl does not use this setting of Hydra"),
    ],
)
def test_mistakes_are_explained(typed, told):
    assert told in refusal(*typed.split())


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("algorithm=gf,rakr", "there is no algorithm=rakr."),
        (
            "algorithm=raker,amkl algorithm.etta=1",
            "there is no algorithm.etta with algorithm=raker",
        ),
        ("seed=interval(0,1)", "seed=interval(0,1) is no list of values"),
        ("seed=range(0)", "seed=range(0) has no value: there would be nothing to run"),
    ],
)
def test_mistakes_of_a_sweep_are_explained(typed, told):
    assert told in refusal(*typed.split(), sweep=True)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["-m", "--cfg", "job"], "--cfg shows the settings of one run: leave -m out"),
        (["--seeds=3"], "unrecognized arguments: --seeds=3 (settings are written key=value"),
        (["--config-dir=nowhere"], "there is no folder nowhere (--config-dir)"),
        (["--jobs=2"], "--jobs and hydra.sweep.dir are for a sweep: add -m"),
        (["-m", "--jobs=0"], "--jobs=0 is neither a number from 1 nor an address tcp://HOST:PORT"),
        (["--from=nowhere"], "--from nowhere: there is no run folder"),
    ],
)
def test_wrong_options_are_explained(typed, told, capsys):
    assert main([*typed, "algorithm=gf"]) == 2
    assert told in capsys.readouterr().err


def test_a_file_is_short_for_a_data_set():
    typed = ["my data.csv", "target=y", "exclude=[id]", "D=50"]
    assert expand(typed)[0] == [
        "dataset=file", "dataset.path='my data.csv'", "dataset.target=y", "dataset.exclude=[id]",
        "D=50", "seeds=1",
    ]  # fmt: skip
    (config,) = read_jobs([r"back\slash, ${x}.csv", "++target=y", "seeds=3"]).settings
    assert config.dataset["path"] == r"back\slash, ${x}.csv" and config.seeds == 3
    assert config.dataset["target"] == "y" and config.algorithm.name == "auto"
    (config,) = read_jobs(["a.csv", "target=y", "series=shop", "D=7"]).settings
    assert (config.algorithm.name, config.kernels["name"]) == ("auto", "gauss5")
    assert config.D == 7, "what is typed counts more than the defaults of a panel"


def test_columns_are_declared_by_a_text_and_by_a_file(tmp_path):
    declared = {"Größe [m]": "category", "when": "date dayfirst Europe/Berlin", "note": "skip"}
    path = tmp_path / "columns.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in declared.items()), "utf-8")
    for text in ("Größe [m]: category, when: date dayfirst Europe/Berlin, note:skip", path):
        (config,) = read_jobs(["my.csv", "target=größe", f"columns={text}"]).settings
        assert config.dataset["columns"] == declared and config.dataset["target"] == "größe"
    (config,) = read_jobs(["my.csv", "target=y", "columns={a: text}", "exclude=[ü,b]"]).settings
    assert (config.dataset["columns"], config.dataset["exclude"]) == ({"a": "text"}, ["ü", "b"])
    for text, told in (("a", "columns=a: write columns='shop: category"), ("no.yaml", "no.yaml")):
        with pytest.raises(UsageError, match=told):
            read_jobs(["my.csv", "target=y", f"columns={text}"])


def test_a_schedule_needs_no_quotes():
    (config,) = read_jobs(["algorithm.eta=0.5/sqrt(t)"]).settings
    assert config.algorithm.params["eta"] == "0.5/sqrt(t)"
    jobs = read_jobs(["algorithm=raker", "algorithm.eta=1/t^0.25,0.1"], sweep=True)
    assert [config.algorithm.params["eta"] for config in jobs.settings] == ["1/t^0.25", "0.1"]


def test_jobs_of_a_sweep_are_all_combinations():
    typed = ["algorithm=glob(sfg*)", "D=5", "seed=range(2)", "D=6", "algorithm.eta='1/t','2/t'"]
    jobs = read_jobs(typed, sweep=True)
    facts = [(c.algorithm.name, c.D, c.seed) for c in jobs.settings]
    assert facts[::2][:3] == [("sfg", 6, 0), ("sfg", 6, 1), ("sfg_mkl", 6, 0)]
    assert [c.algorithm.params["eta"] for c in jobs.settings[:3]] == ["1/t", "2/t", "1/t"]
    assert jobs.swept == ["algorithm", "seed", "algorithm.eta"]
    assert len(read_jobs([], sweep=True).settings) == 1


def test_a_parameter_that_some_algorithms_lack_is_left_out_of_their_jobs():
    jobs = read_jobs(["algorithm=raker,gf,rfomkr", "algorithm.M=5,10"], sweep=True)
    values = [config.algorithm.params.get("M") for config in jobs.settings]
    assert values == [None, None, 5, 10, None, None]
    assert jobs.notes == [
        "raker has no algorithm.M and runs without it.",
        "rfomkr has no algorithm.M and runs without it.",
    ]


def test_settings_of_a_run_are_printed(capsys):
    assert main(["--cfg", "job", "algorithm=gf", "algorithm.M=3", "outputs=${seed}"]) == 0
    assert "outputs: ${seed}" in capsys.readouterr().out
    assert main(["--cfg", "job", "--resolve", "algorithm=gf", "outputs=${seed}"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert (printed["algorithm"]["name"], printed["outputs"]) == ("gf", 0)


def test_the_tab_key_completes_names(monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "omkl-run dataset=air")
    assert main(["-sc", "query=bash"]) == 0
    assert set(capsys.readouterr().out.split()) == {"dataset=air_quality", "dataset=airfoil"}


def test_an_experiment_is_added(tmp_path):
    (config,) = read_jobs(["+experiment=late_targets", "stream.delay=3"]).settings
    assert (config.dataset["name"], config.stream.delay) == ("airfoil", 3)
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\nhydra: {sweeper: {params: {seed: '1,2'}}}\n"
    (tmp_path / "experiment" / "many.yaml").write_text(text)
    jobs = read_jobs(["+experiment=many", "D=3,4"], [tmp_path], sweep=True)
    assert [(c.seed, c.D) for c in jobs.settings] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_data_set_of_ones_own_says_its_task(tmp_path):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.yaml").write_text("name: mine\npath: rows.csv\ntarget: y\n")
    done = omkl_run(tmp_path, "--config-dir=.", "dataset=mine", "algorithm=raker")
    assert done.returncode != 0
    assert "dataset.task is missing; it is one of regression, classification" in done.stderr


def test_own_yaml_counts_as_a_name(tmp_path):
    (tmp_path / "algorithm").mkdir()
    own = tmp_path / "algorithm" / "quick.yaml"
    own.write_text("defaults: [gf, _self_]\neta: 1.0\n")
    (config,) = read_jobs(["algorithm=quick", "algorithm.M=3"], [tmp_path]).settings
    assert (config.algorithm.params["eta"], config.algorithm.params["M"]) == (1.0, 3)
    own.write_text("eta: [1.0\n")
    assert "quick.yaml" in refusal("algorithm=quick", config_dirs=[tmp_path])


def test_mistakes_end_with_one_line_and_a_status(tmp_path):
    done = omkl_run(tmp_path, "algorithm=rakr", start=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"omkl-run: there is no algorithm=rakr\. Did .*\n", done.stderr)
    done = omkl_run(tmp_path, "algorithm.M=900", *TINY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "omkl-run: algorithm.M=900 lies outside [1, N=17]\n"
    assert list(tmp_path.iterdir()) == []


def test_outputs_in_the_way_are_told(tmp_path):
    (tmp_path / "out").write_text("a file")
    for more in ([], ["-m"]):
        done = omkl_run(tmp_path, "outputs=out", *TINY, *more)
        assert done.returncode == 1
        assert re.fullmatch(r"omkl-run: cannot use \S*out\S*: Not a directory\n", done.stderr)


def test_a_disk_without_room_ends_a_sweep_with_one_line(tmp_path):
    limited = [
        sys.executable, "-c",
        "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, 0));"
        "from omkl.commands import omkl_run; omkl_run()",
    ]  # fmt: skip
    done = subprocess.run(
        [*limited, "-m", "outputs=out", *TINY], cwd=tmp_path, env=environment(),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"omkl-run: cannot use out/sweeps/\S+: File too large\n", done.stderr)


# --- single runs ------------------------------------------------------------------


@pytest.mark.slow(3)
def test_pages_on_files_run_as_typed_and_print_what_they_show(tmp_path):
    names = ("docs/own-files.md", "docs/start/csv.md", "README.md")
    pages = [(ROOT / name).read_text("utf-8") for name in names]
    shown = re.findall(
        r"^    \$ (omkl-.*)\n((?:(?:    (?!\$).*)?\n)*)", "\n".join(pages), re.MULTILINE
    )
    assert len(shown) == 13
    path = {**environment(), "PATH": f"{OMKL_RUN.parent}:{os.environ['PATH']}"}
    (code,) = re.findall(r"```python\n(.*?)```", pages[0], re.DOTALL)

    def words(text: str) -> str:
        """Without line breaks and keys, which a terminal and a setting may change."""
        return re.sub(r"(-[0-9a-f]{4})?/auto(-[0-9a-f]{12})+", "", " ".join(text.split()))

    for typed, lines in shown:
        if typed.startswith("omkl-run "):
            arguments = shlex.split(typed.removeprefix("omkl-run "))
            done = omkl_run(tmp_path, *arguments, "tracking=none", "figures=false")
        else:
            done = subprocess.run(["bash", "-c", typed], cwd=tmp_path, env=path,
                                  capture_output=True, text=True, check=True)  # fmt: skip
        printed = words(done.stdout + done.stderr)
        for line in lines.splitlines():
            assert words(line.removesuffix("...")) in printed, (typed, line)
        if typed.startswith("omkl-data example"):
            head = re.search(r"    id,date.*\n(    .*\n)+", pages[0])[0]
            assert (tmp_path / "my.csv").read_text("utf-8").startswith(textwrap.dedent(head))
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_own_table_from_the_prompt_to_the_results(tmp_path):
    write_table(tmp_path / "my.csv")
    typed = ["dataset=file", "dataset.path=my.csv", "dataset.target=price"]
    typed += ["algorithm=sfg_r", "algorithm.M=3"]
    done = omkl_run(tmp_path, *typed, *TINY, start=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "OMKL-SFG-R on my.csv" in done.stdout
    assert "rows       120, 2 inputs" in done.stdout
    assert "         regret in hindsight: regret.ridge_features=true\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    (folder,) = (tmp_path / "outputs" / "runs").glob("my-*/*")
    assert f"results  {folder.relative_to(tmp_path)}/\n" in done.stdout
    assert done.stdout.startswith("my.csv -> price   120 rows, 2 inputs from 2 columns\n"), (
        "what was read, before the rows"
    )
    assert (tmp_path / "outputs" / "latest").resolve() == folder.resolve()
    for absent in ("plots", "tracked", "\x1b", "/120 "):  # a bar is for a terminal
        assert absent not in done.stdout

    pytest.importorskip("mlflow", reason="MLflow is an extra")
    # What is finished can be drawn and tracked later.
    done = omkl_run(tmp_path, *typed, *TINY, "figures=true", "tracking=mlflow")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "Found finished: nothing was computed" in done.stdout
    assert f"plots    {folder.relative_to(tmp_path)}/figures/over_time.png\n" in done.stdout
    assert "\n         graph.png, mse.png, predictions.png" in done.stdout
    assert "tracked  outputs/mlflow.db  (look: omkl-report ui)\n" in done.stdout
    assert (tmp_path / "outputs" / "mlflow.db").exists()
    for path in filter(Path.is_file, folder.rglob("*")):
        assert str(tmp_path).encode() not in path.read_bytes(), path.name
        assert not path.name.startswith(".")
    again = modules(tmp_path, *typed, *TINY, "figures=true", "tracking=mlflow")
    assert "matplotlib" not in again, "there was nothing left to draw"
    new = modules(tmp_path, *typed, *TINY, "seed=1", "figures=false", "tracking=none")
    assert not {"mlflow", "matplotlib"} & new


def test_the_result_is_printed_before_anything_is_drawn_or_logged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(figures, "write_figures", lambda *_: shown.append(capsys.readouterr().out))
    monkeypatch.setattr(viewers, "track", lambda *_: shown.append(capsys.readouterr().out))
    typed = ["algorithm=mean", "dataset.rows=50", "seeds=1", "figures=true"]
    assert main(typed) == 0
    drawn, logged = shown
    assert (
        "Running mean of the targets on synthetic" in drawn and "results  outputs/runs/" in logged
    )


def modules(folder: Path, *arguments: str) -> set[str]:
    """What ``omkl-run`` has imported when it ends."""
    code = (
        "import atexit, sys\nfrom omkl.commands import omkl_run\n"
        "atexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n"
        "omkl_run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.splitlines()[-1].split())


def test_imports_are_those_that_are_needed(tmp_path):
    heavy = {"mlflow", "matplotlib", "sklearn", "pandas", "pyarrow", "numba", "scipy", "numpy"}
    assert not heavy & modules(tmp_path, "--help")


# --- sweeps -----------------------------------------------------------------------

SWEEP = [
    "-m", "--config-dir=own", "algorithm=raker,gf", "dataset=good,bad", "algorithm.M=3,4", *TINY,
]  # fmt: skip


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """Two own data sets, one of them spoiled."""
    (tmp_path / "own" / "dataset").mkdir(parents=True)
    for name in ("good", "bad"):
        write_table(tmp_path / f"{name}.csv", spoiled=name == "bad")
        (tmp_path / "own" / "dataset" / f"{name}.yaml").write_text(
            f"defaults: [file, _self_]\nname: {name}\npath: {name}.csv\ntarget: price\n"
        )
    return tmp_path


@pytest.mark.slow
def test_sweep_goes_on_after_failures_and_is_continued(sweep_folder):
    done = omkl_run(sweep_folder, *SWEEP)
    assert done.returncode == 1
    assert done.stdout.count("raker has no algorithm.M") == 1
    assert "\n[1/8] raker on good: MSE " in done.stdout
    assert "\n[2/8] raker on good: the same as an earlier job\n" in done.stdout
    assert "\n[3/8] raker on bad: failed: bad.csv: row 50, column 'b' has" in done.stdout
    assert done.stdout.count("row 50, column 'b'") == 2, "once when it fails, and once at the end"
    assert "\n[6/8] gf on good (M=4): MSE " in done.stdout
    assert "3 not complete" in done.stdout
    assert max(map(len, done.stdout.partition("\n\n")[2].splitlines())) <= 80
    (first,) = (sweep_folder / "outputs" / "sweeps").iterdir()
    assert f"table    outputs/sweeps/{first.name}/\n" in done.stdout
    assert "row 50, column 'b'" in (first / "table.md").read_text(encoding="utf-8")
    before = results_of(sweep_folder / "outputs")
    assert len(before) == 3

    write_table(sweep_folder / "bad.csv", rows=100)
    done = omkl_run(sweep_folder, *SWEEP)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("(found finished)") == 3
    assert "not complete" not in done.stdout
    after = results_of(sweep_folder / "outputs")
    assert len(after) == 6
    assert before.items() <= after.items()

    write_table(sweep_folder / "bad.csv", spoiled=True)
    done = omkl_run(sweep_folder, *SWEEP, "algorithm=gf", "force=true", "fail_fast=true")
    assert done.returncode == 1
    assert "[1/4] gf on good (M=3): MSE" in done.stdout
    assert "[3/4] gf on bad (M=3): failed" in done.stdout
    assert "[4/4]" not in done.stdout
    assert "1 not complete" in done.stdout
    assert "(found finished)" not in done.stdout


@contextlib.contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """omkl-run, from when it is imported: before, a Ctrl-C is Python's own affair."""
    # A test session in the background has SIGINT ignored, which a child would inherit.
    listening = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from omkl.commands import omkl_run; print('imported', flush=True); omkl_run()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listening, *arguments], cwd=folder, env=environment(),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "imported\n"
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT, (out, err)
    assert "Traceback" not in out + err, err
    assert err.endswith("Interrupted. Finished runs are kept. The same command continues.\n")
    return out, err


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.4, 1.5])
def test_interrupted_run_leaves_nothing(tmp_path, seconds):
    with started(tmp_path, *TINY, "dataset.rows=3000000", "algorithm.M=3") as process:
        time.sleep(seconds)
        out, _ = interrupted(process)
    assert out == ""
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
