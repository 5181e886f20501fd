"""Screens of the commands in a pseudo-terminal, as pyte renders them."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyte
import pytest

BIN = Path(sys.executable).parent
WIDTH, HEIGHT = 80, 60
QUICK = ("tracking=none", "figures=false")
INTERRUPTED = "Interrupted. Finished runs are kept. The same command continues."
# What is left of a control code if a terminal does not recognise it.
CODE = re.compile(r"\\x1b|\\r|\x1b|\[\d+(;\d+)*[mKA]|\[[KA]|\[\?25|\]8;")


class Terminal:
    """A command with its own pseudo-terminal.

    Parameters
    ----------
    folder
        Working directory.
    command
        Name and arguments of a console script.
    """

    def __init__(self, folder: Path, *command: str) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        # pytest in the background ignores SIGINT, which a child would inherit.
        self._process = subprocess.Popen(
            [BIN / command[0], *command[1:]], cwd=folder, stdin=inside, stdout=inside,
            stderr=inside, start_new_session=True, env=_environment(),
            preexec_fn=lambda: (
                fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                signal.signal(signal.SIGINT, signal.SIG_DFL),
            ),
        )  # fmt: skip
        os.close(inside)

    @property
    def lines(self) -> list[str]:
        """The rows of the screen up to the last that has a letter."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, seen: Callable[[str], object], seconds: float = 120.0) -> None:
        """Render what the command writes until the screen is as wanted, or it ends."""
        deadline = time.monotonic() + seconds
        while not seen(self.text):
            assert time.monotonic() < deadline, self.text
            if not self._read():
                break
        assert not CODE.search("".join(self.lines).replace(INTENDED, "")), self.text

    def libraries(self) -> str:
        """Return the shared libraries that the command has loaded."""
        return Path(f"/proc/{self._process.pid}/maps").read_text()

    def press(self, key: bytes) -> None:
        os.write(self._fd, key)

    def end(self, seconds: float = 120.0) -> int:
        """Render the rest, check what holds of every last screen, and return the exit status."""
        self.until(lambda text: False, seconds)
        os.close(self._fd)
        status = self._process.wait(30)
        assert not self.screen.cursor.hidden, "the cursor is shown"
        assert self.screen.cursor.x == 0, "a prompt begins a line"
        assert not re.search("[━╸╺]", self.text), f"a bar is left:\n{self.text}"
        assert "Traceback" not in self.text, self.text
        return status

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 1.0)[0]:
            return True
        try:
            piece = os.read(self._fd, 65536)
        except OSError:  # Linux reports the end of the command so
            return False
        self.sent += piece
        self._stream.feed(piece)
        return bool(piece)


UNSET = ("COLUMNS", "LINES", "PYTHONUNBUFFERED")


def _environment() -> dict[str, str]:
    environment = {**os.environ, "TERM": "xterm-256color", "OMKL_OFFLINE": "1"}
    return {key: text for key, text in environment.items() if key not in UNSET}


INTENDED = r"a\x1b[31mRED\x1b[0m"  # the column of esc.csv as it is meant to be shown
HEADER = "a\x1b[31mRED\x1b[0m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for the commands: a short one, one of 40,000 rows, and one with escape codes."""
    place = tmp_path_factory.mktemp("screens")
    rng = np.random.default_rng(0)
    for name, rows, column in (("my", 120, "a"), ("long", 40_000, "a"), ("esc", 60, HEADER)):
        numbers = (f"{a:.3f},{a - b * b:.3f}" for a, b in rng.random((rows, 2)))
        (place / f"{name}.csv").write_text("\n".join([f"{column},price", *numbers]) + "\n")
    return place


@pytest.mark.slow(2)
def test_a_bar_runs_below_the_columns_and_leaves_the_result(folder):
    command = ("long.csv", "target=price", "algorithm=gf", "seeds=20", *QUICK)
    terminal = Terminal(folder, "omkl-run", *command)
    terminal.until(lambda text: "rows/s" in text)
    assert terminal.lines[0] == "long.csv -> price   40,000 rows, 1 input from 1 column"
    assert terminal.lines[1] == "  as numbers  a"
    bar = r"gf on long\.csv [━╸╺]+ [\d,]+/40,000 \(\d+ %\) [\d,]+ rows/s MSE [\d.]+( \d s left)?"
    assert re.fullmatch(bar, " ".join(terminal.lines[3:]))
    assert terminal.screen.cursor.hidden
    assert terminal.end() == 0
    assert terminal.lines[0] == "long.csv -> price   40,000 rows, 1 input from 1 column"
    assert terminal.lines[3] == "OMKL-GF on long.csv"
    assert "rows/s MSE" not in terminal.text
    assert re.search(r"^results  outputs/runs/long-\w{4}/gf-\w+-\w+/$", terminal.text, re.MULTILINE)
    link = f";{(folder / 'outputs' / 'latest').resolve().as_uri()}\x1b\\outputs/runs/long-"
    assert link in terminal.sent.decode(), "the folder can be clicked on"


@pytest.mark.slow(2)
def test_a_sweep_has_one_line_per_job_and_its_table(folder):
    files = ("-m", "dataset=file", "dataset.path=long.csv,my.csv", "dataset.target=price")
    learners = ("algorithm=gf", "algorithm.M=3,5", "kernels=gaussian17")
    terminal = Terminal(folder, "omkl-run", *files, *learners, *QUICK)
    terminal.until(lambda text: re.search(r"^\[2/4\].* rows/s", text, re.MULTILINE))
    assert re.match(r"\[1/4\] gf on long.csv \(M=3\): MSE", terminal.lines[0])
    assert terminal.end() == 0
    for number, line in enumerate(terminal.lines[:4], start=1):
        assert re.match(rf"\[{number}/4\] gf on (long|my)\.csv \(M=[35]\): MSE [\d.]+", line)
    assert "rows/s MSE" not in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ("dataset.rows=3000000", "rows/s"),
        ("-m dataset.rows=1000,3000000", "[2/2] gf on synthetic (dataset.rows=3000000)"),
        ("-m dataset.rows=1000,3000000 --jobs=2", "[1/2] gf on synthetic"),
    ],
)
def test_an_interrupted_run_leaves_a_clean_prompt(tmp_path, more, seen):
    typed = ("algorithm=gf", *QUICK)
    terminal = Terminal(tmp_path, "omkl-run", *more.split(), *typed)
    terminal.until(lambda text: seen in text)
    terminal.press(b"\x03")
    assert terminal.end() == -signal.SIGINT
    assert terminal.lines[-1] == INTERRUPTED
    assert "rows/s MSE" not in terminal.text
    results = list(tmp_path.glob("outputs/runs/*/*/result.json"))
    assert len(results) == (1 if "-m" in more else 0)


def test_an_interrupted_start_leaves_a_clean_prompt(tmp_path):
    terminal = Terminal(tmp_path, "omkl-run", "dataset.rows=3000000", "algorithm=gf", *QUICK)
    while "_multiarray_umath" not in terminal.libraries():  # amid the imports
        time.sleep(0.01)
    terminal.press(b"\x03")
    assert terminal.end() == -signal.SIGINT
    assert terminal.lines == ["^C", INTERRUPTED]


@pytest.mark.slow(3)
def test_names_from_a_file_are_shown_as_text(folder):
    """Results, errors and lines of a sweep."""
    result = Terminal(folder, "omkl-run", "esc.csv", "target=price", "algorithm=ridge",
                      "model=true", *QUICK)  # fmt: skip
    assert result.end() == 0
    assert result.lines[:2] == [
        "esc.csv -> price   60 rows, 1 input from 1 column",
        rf"  as numbers  {INTENDED}",
    ]
    for status, *command in [
        (1, "omkl-run", "esc.csv", "target=cost", *QUICK),
        (1, "omkl-predict", "outputs/latest", "my.csv"),
        (1, "omkl-run", "-m", "esc.csv", "target=cost", "seed=1,2", *QUICK),
    ]:
        terminal = Terminal(folder, *command)
        assert terminal.end() == status, terminal.text
        assert INTENDED in "".join(terminal.lines), terminal.text


def commands_of_make_run() -> list[list[str]]:
    """Return the commands of the target ``run``, without those that only print a hint."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^run:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    lines = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]
    return [line.split() for line in lines if not line.startswith("@echo")]


@pytest.mark.slow(4)
def test_make_run_shows_a_result_with_intervals_and_a_plot(tmp_path):
    screens = []
    for command in commands_of_make_run():
        terminal = Terminal(tmp_path, *command)
        if command[0] == "omkl-run":
            terminal.until(lambda text: "━" in text, 400.0)
        assert terminal.end(400.0) == 0, terminal.text
        screens.append(terminal.lines)
    _, own, synthetic = screens
    assert own[0] == "my.csv -> price   400 rows, 8 inputs from 4 columns"
    heads = [line.split()[0] for line in own if line.startswith("  ") and line[2] != " "]
    assert {"error", "baselines", "intervals"} <= {*heads}
    assert any(re.match(r"plots    outputs/runs/my-45cf/auto-", line) for line in own)
    assert synthetic[0].startswith("OMKL-SFG-R on synthetic")


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("omkl-data list", "name "),
        ("omkl-data describe airfoil", "name "),
        ("omkl-check ridge --only predict_and_learn_apart", "Online linear ridge"),
        ("omkl-report show", "omkl-report: there are no runs in outputs/runs; omkl-run makes"),
        ("omkl-predict nowhere my.csv", "omkl-predict: "),
        ("omkl-run algorithm=rakr", "omkl-run: there is no algorithm=rakr. Did you mean raker?"),
    ],
)
def test_other_commands(tmp_path, command, first):
    terminal = Terminal(tmp_path, *command.split())
    terminal.end()
    assert terminal.lines[0].startswith(first), terminal.text
