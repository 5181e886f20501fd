"""``omkl-run`` as it is typed: started, or where the start does not matter in a fork."""

import contextlib
import json
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

from omkl.config.command_line import CommandLine, UsageError, jobs_of, swept_keys
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


# --- what is typed is looked up ---------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            "algorithm=rakr",
            "there is no algorithm=rakr. Did you mean raker? There are: raker, adaraker, rfomkr, ",
        ),
        ("dataset=navel", "there is no dataset=navel. Did you mean naval?"),
        ("kernels=rbf42", "Did you mean rbf41? There are: rbf41, rbf9, rbf51, rbf41_exact"),
        ("algorithm=gf algorithm.etta=1", "no algorithm.etta with gf. Did you mean algorithm.eta?"),
        (
            "algorithm=raker algorithm.M=5",
            "raker has no algorithm.M (but amkl, amkl_aks, amkl_random, fomd_oms, gf and ",
        ),
        (
            "sede=3",
            "there is no sede. Did you mean seed? There are: seed, dataset.seed, seeds",
        ),
        ("M=5", "Did you mean algorithm.M?"),
        ("algorithm=fomd_oms algorithm.D=9", "no algorithm.D with fomd_oms. Did you mean D? There"),
        ("algorithm.limit=9", "no algorithm.limit with sfg_r. Did you mean stream.limit?"),
        ("stream.scalling=whole", "Did you mean stream.scaling?"),
        ("stream.limit.x=3", "there is no stream.limit.x."),
        ("stream=3", "stream is made of stream.limit, stream.scaling, stream.lags, stream.delay"),
        ("dataset.kernel=3", "dataset.kernel is made of dataset.kernel.family, dataset.kernel."),
        ("+new.key=3", "there is no new.key."),
        ("dataset=naval dataset.n_centres=3", "naval has no dataset.n_centres (but synthetic)"),
        ("+dataset.kernel.foo=3", "there is no dataset.kernel.foo with synthetic."),
        ("-m dataset=airfoil,file dataset.path=x.csv", "airfoil has no dataset.path"),
        ("algorithm=gf,raker", "algorithm=gf,raker names several values: add -m"),
        ("a.csv target=a,b", "names several values: add -m to run them one by one"),
        ("-m algorithm=gf,rakr", "there is no algorithm=rakr."),
        ("-m seed=interval(0,1)", "seed=interval(0,1) is no list of values"),
        ("-m seed=range(0)", "seed=range(0) names no value: there would be nothing to run"),
        ("-m launcher=batch launcher.wokers=2", "Did you mean launcher.workers? There are: "),
        ("-m launcher.workers=2", "launcher.workers is of launcher=batch, which is not typed"),
        ("-m --cfg job", "--cfg is about one run: leave -m out"),
        ("~algorithm", "nothing can be taken out"),
        ("debug=quik", "there is no debug=quik. Did you mean quick? There are: quick."),
        ("debug=quick debug.seeds=3", "there is no debug.seeds. Did you mean seeds?"),
        ("algorithm.name=5", "an algorithm is chosen by algorithm=NAME"),
        ("naval", "write key=value, as in algorithm=gf. Did you mean dataset=naval?"),
        ("a.csv b.csv", "a.csv and b.csv: one file is read in a run"),
        ("a.csv dataset=naval", "a.csv is the data set already: leave dataset= out"),
        ("a.csv traget=price", "there is no traget. Did you mean target? There are: target, "),
        ("algorithm.eta=sqrt(t)", "goes in quotes of its own"),
        ("--config-dir=nowhere algorithm=gf", "there is no folder nowhere"),
        ("--seeds=3 algorithm=gf", "there is no option --seeds=3; settings are written key=value"),
    ],
)
def test_unknown_names_are_told(typed, told):
    arguments = typed.split()
    if arguments[-1] == "job":
        arguments.append("seeds=2")
    with pytest.raises(UsageError, match=re.escape(told)):
        CommandLine(arguments).checked()


@pytest.mark.parametrize(
    ("typed", "passed_on"),
    [
        (["dataset=naval", "seeds=3", "-m"], ["dataset=naval", "seeds=3"]),
        (["algorithm.eta=0.5/sqrt(t)"], ['algorithm.eta="0.5/sqrt(t)"']),
        (
            ["my data.csv", "target=y", "exclude=[id]", "D=50"],
            [
                "dataset=file",
                "dataset.path='my data.csv'",
                "dataset.target=y",
                "dataset.exclude=[id]",
                "D=50",
                "seeds=1",
            ],
        ),
        (["++seeds=3", "a.parquet"], ["dataset=file", "++seeds=3", "dataset.path=a.parquet"]),
        (
            ["++target=y", "a.csv", "seeds=1"],
            ["dataset=file", "++dataset.target=y", "dataset.path=a.csv", "seeds=1"],
        ),
        (
            [r"back\slash, ${x}.csv", "seeds=1"],
            ["dataset=file", r"dataset.path='back\slash, \${x}.csv'", "seeds=1"],
        ),
        (["-m", "algorithm.eta=1/t^0.25,0.1"], ['algorithm.eta="1/t^0.25","0.1"']),
        (['algorithm.eta="0.5/sqrt(t)"'], ['algorithm.eta="0.5/sqrt(t)"']),
        (["-m", "algorithm.M=range(1,5)"], ["algorithm.M=range(1,5)"]),
        (
            ["-m", "algorithm=glob(sfg*)", "algorithm.M=5"],
            ["algorithm=glob(sfg*)", "algorithm.M=5"],
        ),
        (["kernels.parts=[{family: gaussian, bandwidth: [0.1, 1]}]"], None),
        (["dataset.kernel.bandwidth=2", "dataset=naval", "dataset=synthetic"], None),
        (["dataset=naval", '+dataset.decimal=","'], None),
        (["hydra.verbose=true", "hydra/launcher=basic"], None),
        (["-sc", "install=bash"], ["install=bash"]),
        (["--info", "searchpath"], []),
        (["--cfg", "job", "algorithm=gf"], ["algorithm=gf"]),
        (["debug=quick", "algorithm=gf", "algorithm.M=3"], None),
    ],
)
def test_what_hydra_can_do_is_passed_on(typed, passed_on):
    assert CommandLine(typed).checked() == (typed if passed_on is None else passed_on)


def test_jobs_of_a_sweep_are_all_combinations():
    groups = {"algorithm": ["gf", "sfg", "sfg_r"]}
    typed = ["algorithm=glob(sfg*)", "D=5", "seed=range(2)", "D=6", "algorithm.eta='1/t','2/t'"]
    jobs = jobs_of(typed, groups)
    assert jobs[:3] == [
        ["algorithm=sfg", "D=6", "seed=0", "algorithm.eta='1/t'"],
        ["algorithm=sfg", "D=6", "seed=0", "algorithm.eta='2/t'"],
        ["algorithm=sfg", "D=6", "seed=1", "algorithm.eta='1/t'"],
    ]
    assert len(jobs) == 8 and swept_keys(typed) == ["algorithm", "seed", "algorithm.eta"]
    assert jobs_of([], groups) == [[]]


def test_parameter_that_some_of_the_swept_lack_is_told_once(capsys):
    line = CommandLine(["-m", "algorithm=raker,gf,sfg", "algorithm.M=5,10"])
    assert line.checked()[-1] == "++algorithm.M=5,10"
    assert capsys.readouterr().out == "raker has no algorithm.M and runs without it.\n"


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
    line = CommandLine(["--config-dir", str(tmp_path), "algorithm=quick", "algorithm.M=3"])
    assert line.checked() == ["algorithm=quick", "algorithm.M=3"]
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\n")
    line = CommandLine(["--config-dir", str(tmp_path), "+experiment=mine", "algorithm.J=3"])
    assert line.checked() == ["+experiment=mine", "algorithm.J=3"]
    line = CommandLine(["--config-dir", str(tmp_path), "algorithm=quick"])
    own.write_text("eta: 1.0\n")
    with pytest.raises(UsageError, match=r"quick\.yaml has no key 'name'"):
        line.checked()
    own.write_text("eta: [1.0\n")
    with pytest.raises(UsageError, match=r"cannot read .*quick\.yaml"):
        line.checked()


def test_mistakes_end_with_one_line_and_a_status(tmp_path):
    done = omkl_run(tmp_path, "algorithm=rakr", start=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"omkl-run: there is no algorithm=rakr\. Did .*\n", done.stderr)
    done = omkl_run(tmp_path, "algorithm.M=900", *TINY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "omkl-run: algorithm.M=900 lies outside [1, N=17]\n"
    done = omkl_run(tmp_path, "hydra/launcher=cluster")
    assert done.returncode == 2
    assert "Could not find 'hydra/launcher/cluster'" in done.stderr
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
        return re.sub(r"(-[0-9a-f]{4})?/auto(-[0-9a-f]{16})+", "", " ".join(text.split()))

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
    assert max(map(len, done.stdout.splitlines())) <= 80
    (folder,) = (tmp_path / "outputs" / "runs").glob("my-*/*")
    assert f"results  {folder.relative_to(tmp_path)}/\n" in done.stdout
    assert done.stdout.startswith("my.csv -> price   120 rows, 2 inputs from 2 columns\n"), (
        "what was read, before the rows"
    )
    assert (tmp_path / "outputs" / "latest").resolve() == folder.resolve()
    for absent in ("plots", "tracked", "\x1b", "/120 "):  # a bar is for a terminal
        assert absent not in done.stdout

    # What is finished can be drawn and tracked later.
    done = omkl_run(tmp_path, *typed, *TINY, "figures=true", "tracking=mlflow")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "Found finished: nothing was computed" in done.stdout
    assert f"plots    {folder.relative_to(tmp_path)}/figures/over_time.png\n" in done.stdout
    assert "\n         mse.png, predictions.png, regret.png" in done.stdout
    assert "tracked  outputs/mlflow.db  (look: omkl-report ui)\n" in done.stdout
    assert (tmp_path / "outputs" / "mlflow.db").exists()
    for path in filter(Path.is_file, folder.rglob("*")):
        assert str(tmp_path).encode() not in path.read_bytes(), path.name
        assert not path.name.startswith(".")
    again = modules(tmp_path, *typed, *TINY, "figures=true", "tracking=mlflow")
    assert not {"mlflow", "matplotlib"} & again, "there was nothing left to do"


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
    single = modules(tmp_path, *TINY, "dataset.rows=60", "algorithm.M=3")
    assert not {"mlflow", "matplotlib", "sklearn"} & single


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


@pytest.mark.slow
def test_sweep_is_told_by_the_files_of_its_jobs(sweep_folder):
    """So it is the same under launchers that run jobs in other processes."""
    done = omkl_run(sweep_folder, *SWEEP, "algorithm.M=3,3", "dataset=good", "figures=true")
    assert "plots    comparison.png, summary.png\n" in done.stdout
    (folder,) = (sweep_folder / "outputs" / "sweeps").iterdir()
    names = {"comparison.png", "summary.png", "table.md", "table.csv", "page.html"}
    assert names <= {path.name for path in folder.iterdir()}
    jobs = [json.loads(path.read_text()) for path in folder.glob("jobs/*.json")]
    assert sorted(job["number"] for job in jobs) == [0, 2], "each once"
    for job in jobs:
        assert job["status"] == "complete"
        assert (folder / "jobs" / job["folder"] / "result.json").exists()


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
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in out + err, err
    assert err.endswith("Interrupted. What is finished is kept; the same command goes on.\n")
    return out, err


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.4, 1.5])
def test_interrupted_run_leaves_nothing(tmp_path, seconds):
    with started(tmp_path, *TINY, "dataset.rows=3000000", "algorithm.M=3") as process:
        time.sleep(seconds)
        out, _ = interrupted(process)
    assert out == ""
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
