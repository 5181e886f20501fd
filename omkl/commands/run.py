"""``omkl-run``: one job, or with ``-m`` a sweep.

``omkl-run --from FOLDER`` takes the settings of a finished run as overrides, to be typed again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.commands import sweep, terminal
from omkl.commands.terminal import EXIT_FAILED, EXIT_USAGE
from omkl.config import reference
from omkl.config.command_line import (
    CommandLine,
    UsageError,
    jobs_of,
    key_of,
    of_file,
    parse_override,
    values_of,
)
from omkl.config.compose import Composer, resolve, without_hydra
from omkl.papers import citation
from omkl.utils import conf, interrupts, registry
from omkl.utils.conf import PROSE, flattened, override_text
from omkl.utils.constraints import no_such
from omkl.utils.wording import UNEXPLAINED, cannot_use, plain, pluralize, warn

if TYPE_CHECKING:
    from omkl.experiment.job import JobInfo
    from omkl.experiment.run import Outcome
    from omkl.runs.run_folder import Run


HELP = {"-h", "--help"}
CITE = "--cite"  # algorithm=gf: BibTeX of what a text that used it cites


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-run`` with ``argv`` (without the program's name) and return the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if terminal.VERSION in arguments:
        print(terminal.VERSION_TEXT)
        return 0
    own_trace = "HYDRA_FULL_ERROR" in os.environ
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        if CITE in arguments:
            print(cite(arguments))
            return 0
        if HELP & set(arguments):
            print(help_page(arguments))
            return 0
        try:
            arguments = expanded(arguments)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return _start(CommandLine(arguments))
    except UsageError as error:
        warn(error, "omkl-run")
        return EXIT_USAGE
    except (HydraException, OmegaConfBaseException) as error:
        if own_trace or interrupts.came():
            raise
        cause = error.__cause__
        more = f"\n{cause}" if isinstance(cause, OmegaConfBaseException) else ""
        warn(f"{str(error).strip()}{more}", "omkl-run")
        return EXIT_USAGE
    except OSError as error:
        if own_trace or error.filename is None or error.strerror is None:
            raise
        warn(cannot_use(error), "omkl-run")
        return EXIT_FAILED
    except SystemExit as error:  # of Hydra's own options
        return error.code if isinstance(error.code, int) else EXIT_FAILED


def _start(line: CommandLine) -> int:
    overrides = line.checked()
    if line.is_hydras:
        sweep.by_hydra(line.options, overrides, line.config_dirs, lambda config: None)
        return 0
    composer = Composer(line.config_dirs)
    first = jobs_of(overrides, line.groups())[0]
    composed = composer.with_hydra(first)
    os.environ.update({str(k): str(v) for k, v in composed.hydra.job.env_set.items()})
    if line.is_sweep or getattr(composed.hydra.mode, "name", None) == "MULTIRUN":
        return 0 if sweep.run(line, overrides, composer, composed) else EXIT_FAILED
    return run_alone(resolve(without_hydra(composed), overrides), overrides)


def help_page(arguments: Sequence[str]) -> str:
    """Return the page that ``--help [TOPIC]`` asks for. Raise UsageError for another topic."""
    line = CommandLine([text for text in arguments if text not in HELP | reference.TOPICS.keys()])
    topics = [text for text in arguments if "=" not in text and not text.startswith("-")]
    topic = topics[0] if topics else ""
    if topic not in {"", *reference.TOPICS}:
        raise UsageError(no_such(f"--help {topic}", topic, reference.TOPICS))
    return reference.help_page(topic, line.groups(), line.config_dirs)


def run_alone(config: dict[str, Any], overrides: Sequence[str]) -> int:
    """Run one job and print its numbers; the exit status."""
    config = sweep.nameable(config)
    from rich.console import Console

    from omkl.experiment import viewers
    from omkl.report import console

    shown: list[Run] = []

    def begun(job: JobInfo) -> None:
        rows = str(job.stream.row_count or "")
        bar.print(lambda where: console.print_columns(job.stream.provenance, rows, where))

    def measured(run: Run) -> None:
        bar.print(lambda where: console.print_run(run, where))
        shown.append(run)

    def published(outcome: Outcome) -> None:
        if outcome.status == "complete":
            print_rest = console.print_hindsight if shown else console.print_run
            bar.print(lambda where: print_rest(outcome.run, where))

    bar = sweep.bar_of(sweep.title_of(config), config)
    with bar as progress:
        told = viewers.Viewers(begun, measured, published)
        outcome = viewers.run_and_show(config, interrupts.ending(progress), viewers=told)
    outputs = Path(config["outputs"])
    if outcome.status != "reused":
        _print_outcome(outcome, outputs)
        return EXIT_FAILED if outcome.status == "failed" else 0
    try:
        result = outcome.run.result
        n_rows = result["n_rounds"] + result.get("rows_without_target", 0)
        console.print_columns(result["stream"], pluralize(n_rows, "row"), Console())
        console.print_run(outcome.run, Console())
        _print_outcome(outcome, outputs)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        print(
            f"omkl-run: {outcome.run.folder} is not as a run leaves it ({error!r}): "
            "force=true computes it again",
            file=sys.stderr,
        )
        return EXIT_FAILED
    return 0


def _print_outcome(outcome: Outcome, outputs: Path) -> None:
    """Print where the files of a run are, or on stderr why it failed."""
    from omkl.report import console
    from omkl.runs.run_folder import FIGURES

    result, folder = outcome.run.result, outcome.run.folder
    if outcome.status == "failed":
        trace = result["error"]["traceback"]
        more = f"\n\n{trace}\n{UNEXPLAINED}" if trace else ""
        warn(f"{result['error']['message']}{more}", "omkl-run")
        return
    for note in outcome.notes:
        print(f"Note: {plain(note)}")
    if outcome.status == "reused":
        print("Found finished: nothing was computed (force=true computes it again).")
    # Paths stay whole: they are there to be copied.
    console.print_saved("results", folder, outputs)
    data = folder.parent
    for file in result["stream"].get("files", ()):  # a file's first run says what its name means
        if data.name.endswith(f"-{file['sha256'][:4]}") and len(list(data.iterdir())) == 1:
            print(f"         {data.name}: {file['name']}, and the first digits of its SHA-256")
    kept = ("predictions.parquet", "labels.csv", "model.npz")
    names = ["result.json", "results.parquet", "curves.npz", "config.yaml"]
    print(console.wrapped("", names + [name for name in kept if (folder / name).exists()]))
    drawn = (folder / FIGURES).glob("*.png")
    if plots := sorted(drawn, key=lambda path: (path.name != "over_time.png", path.name)):
        console.print_path("plots", plots[0])
        print(console.wrapped("", [path.name for path in plots[1:]]))
    if outcome.tracked:
        print(console.tracked_text(outputs))
    if result["stream"].get("columns") and not result.get("federated"):  # a file of the user's
        steps = []
        if (folder / "model.npz").exists():
            steps = [f"predict new rows: omkl-predict {folder} FILE"]
        elif len(result["seeds"]) == 1:  # model=true needs one
            steps = ["keep the model: model=true"]
        if "rmse" in result:
            others = "kt,raker,vaw2" if "keys" in result else "auto,raker,vaw2"
            steps.append(f"compare: -m algorithm={others}")
        if steps:
            print(f"next     {'; '.join(steps)}")


def cite(arguments: Sequence[str]) -> str:
    """The entries of the algorithms that the command line chooses, and of omkl.

    Raises UsageError as a run does, and where no algorithm is chosen.
    """
    line = CommandLine([text for text in arguments if text != CITE])
    overrides = [parse_override(text)[1] for text in line.checked() if not text.startswith("-")]
    chosen = [one for one in overrides if one.key_or_group == "algorithm"]
    if not chosen:
        raise UsageError(f"{CITE} shows what to cite for an algorithm: add algorithm=NAME")
    typed = [name for one in chosen for name in values_of(one, line.groups()["algorithm"])]
    names = [conf.entry("algorithm", name, line.config_dirs)["name"] for name in typed]
    remarks = []
    for name in dict.fromkeys(names):
        if not citation.papers_of(name):  # what its docstring says in place of a known paper
            paper = registry.box(name).get("Paper", "its docstring names none")
            remarks.append(f"% {registry.title(name)}, paper: {' '.join(paper.split())}")
    return "\n\n".join([*remarks, citation.bibtex(names)])


FROM = "--from"
GROUPS = ("algorithm", "dataset", "kernels", "federation")


def expanded(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--from FOLDER`` replaced by the settings of that run.

    What is typed besides counts more.

    Raises
    ------
    ValueError
        Where no folder is named, or it is no whole run folder.
    """
    left = list(arguments)
    places = [n for n, text in enumerate(left) if text.partition("=")[0] == FROM]
    if not places:
        return left
    place = places[0]
    _, equals, folder = left.pop(place).partition("=")
    if not equals:
        if place == len(left) or left[place].startswith("-") or "=" in left[place]:
            raise ValueError(f"{FROM} FOLDER: name the folder of a run")
        folder = left.pop(place)
    if len(places) > 1:
        raise ValueError(f"{FROM} is given twice: a run begins from one")
    config = _config_of(Path(folder).expanduser())
    if "path" in config["dataset"]:  # a file of the user's
        left = [text if text.startswith("-") else of_file(text) for text in left]
    typed = {key_of(text) for text in left if not text.startswith("-")}
    return [*left[:place], *_overrides(config, typed), *left[place:]]


def _config_of(folder: Path) -> Mapping[str, Any]:
    from omkl.runs.run_folder import Run, UnreadableRunError  # imported here: NumPy takes 0.1 s

    try:
        return Run(folder).config
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{FROM} {folder}: there is no run folder") from None
    except UnreadableRunError as error:
        raise ValueError(f"{FROM} {folder}: {error}") from None


def _overrides(config: Mapping[str, Any], typed: set[str]) -> list[str]:
    """A choice per group and an override per setting, but for those that are typed."""
    from omkl.runs.run_folder import NEUTRAL

    config = {k: v for k, v in config.items() if k not in NEUTRAL}
    of_user = "path" in config["dataset"]  # a file of the user's
    if config["federation"]["name"] == "column":  # which says how many clients there are
        config.pop("clients", None)
    overrides = []
    for group in GROUPS:
        section = config.get(group)
        if not isinstance(section, Mapping) or group in typed:
            config.pop(group, None)
            continue
        name = "file" if group == "dataset" and of_user else section.get("name")
        if name and name != "own":
            overrides.append(f"{group}={name}")
        entry = conf.entry(group, name) if name in conf.names(group) else {}
        if group == "kernels" and entry.get("parts") == section.get("parts"):
            config.pop("kernels")  # else it would be a dictionary of one's own
    for key, value in flattened(config):
        group, _, field = key.partition(".")
        described = group == "dataset" and field in PROSE
        # The group is chosen by its name; a file of the user's by what it holds.
        looked_up = (field == "name" and group in GROUPS) or (of_user and key == "dataset.sha256")
        if key not in typed and not described and not looked_up:
            overrides.append(f"++{key}={override_text(value)}")
    return overrides
