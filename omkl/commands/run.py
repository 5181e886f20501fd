"""``omkl-run``: one job, or with ``-m`` a sweep."""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl import conf
from omkl.commands import cite, rerun, terminal
from omkl.commands.sweep import Sweep
from omkl.commands.terminal import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from omkl.config import compose
from omkl.config.command_line import CommandLine, UsageError
from omkl.threads import default_to_one_thread, one_thread_each

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from omkl.runs.run_folder import Run


def run() -> None:
    """``omkl-run``: one job, or with ``-m`` a sweep."""
    sys.unraisablehook = _insisting_on_interrupts(sys.unraisablehook)
    terminal.Interrupts.listen()
    try:
        try:
            terminal.prepare()
            code = _run(sys.argv[1:])
        except terminal.Surroundings as error:
            print(f"omkl-run: {error}", file=sys.stderr)
            code = EXIT_USAGE
        except Exception as error:
            if _was_interrupted(error):
                raise KeyboardInterrupt from error
            raise
        code = terminal.ended("omkl-run", code)
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt):
            Sweep.finish(interrupted=True)
        print("\nInterrupted. What is finished is kept; the same command goes on.", file=sys.stderr)
        sys.stdout.flush()
        # Threads may be in the middle of a long computation: nothing waits for them.
        os._exit(EXIT_INTERRUPTED)
    if _single:  # launchers of sweeps have threads and processes that the interpreter waits for
        terminal.leave(code)
    sys.exit(code)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether a library has made another error of a Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _insisting_on_interrupts(otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Ctrl-C that lands in a callback from C code is lost there: send it again."""

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            otherwise(unraisable)

    return hook


def _run(arguments: Sequence[str]) -> int:
    if terminal.VERSION in arguments:
        print(terminal.version())
        return 0
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own_trace = "HYDRA_FULL_ERROR" in os.environ
    # Hydra then raises its errors instead of printing them, some of them with tracebacks.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    import hydra
    from hydra.errors import HydraException

    try:
        if cite.FLAG in arguments:
            print(cite.cite(arguments))
            return 0
        try:
            arguments = rerun.expanded(arguments)
        except ValueError as error:
            raise UsageError(str(error)) from None
        line = CommandLine(arguments)
        sys.argv[1:] = line.checked()
        OmegaConf.register_new_resolver("omkl.help", line.help, replace=True)
        place = conf.main_file()
        main = hydra.main(version_base="1.3", config_path=str(place.parent), config_name=place.stem)
        try:
            main(job)()
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and error.filename is None and Sweep.folder is not None:
                error.filename = str(Sweep.folder)  # a file of Hydra's
            Sweep.finish()
            raise
        Sweep.finish()
    except UsageError as error:
        print(f"omkl-run: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (HydraException, OmegaConfBaseException) as error:
        if own_trace or _was_interrupted(error):
            raise
        cause = error.__cause__
        more = f"\n{cause}" if isinstance(cause, OmegaConfBaseException) else ""
        print(f"omkl-run: {str(error).strip()}{more}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        if own_trace or error.filename is None or error.strerror is None:
            raise
        print(f"omkl-run: {terminal.unusable(error)}", file=sys.stderr)
        return EXIT_FAILED
    except SystemExit as error:  # Hydra's own options, and fail_fast
        return error.code if isinstance(error.code, int) else EXIT_FAILED
    return EXIT_FAILED if Sweep.failed else _exit_code


_exit_code = 0
_single = False  # whether it is one job, not a sweep


def job(cfg: DictConfig) -> None:
    """One job of a run or a sweep, called by Hydra."""
    global _exit_code, _single
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra_config = HydraConfig.get()
    config = compose.resolve(cfg, hydra_config.overrides.task)

    from omkl.config import checks, settings

    try:
        config = _continued(config, hydra_config.overrides.task)
    except ValueError as error:
        print(f"omkl-run: {error}", file=sys.stderr)
        _exit_code = EXIT_USAGE
        return
    try:
        checks.check_sections(config)
    except ValueError as error:
        raise UsageError(str(error)) from None
    classify = False
    with contextlib.suppress(ValueError):  # the job tells what is wrong
        classify = settings.task_in(config) == "classification"
    _single = hydra_config.mode != RunMode.MULTIRUN
    if _single:
        _run_alone(config, classify)
    else:
        _run_in_sweep(config, classify, hydra_config)


def _continued(config: dict[str, Any], typed: Sequence[str]) -> dict[str, Any]:
    """The configuration, with that of the run that it resumes; ValueError where it cannot."""
    if config["resume"] is None:
        return config
    from omkl.experiment import kept_model

    return kept_model.continued(config, [text.partition("=")[0] for text in typed])


def _shows_bar(config: Mapping[str, Any]) -> bool:
    """A bar would write over the questions of a prompt."""
    return bool(config["stream"]["labels"] != "prompt")


def _run_alone(config: Mapping[str, Any], classify: bool) -> None:
    global _exit_code
    from omkl import viewers
    from omkl.report import console

    label = f"{config['algorithm']['name']} on {config['dataset']['name']}"
    shown: list[Run] = []

    def show(run: Run) -> None:
        bar.print_run(run)
        shown.append(run)

    bar = console.Bar(label, config["seeds"], _shows_bar(config), classify)
    with bar as progress:
        insisting = terminal.Interrupts.insisting(progress)
        outcome = viewers.run_and_show(config, insisting, show=show)
    console.print_outcome(outcome, Path(config["outputs"]), bool(shown))
    _exit_code = EXIT_FAILED if outcome.status == "failed" else 0


def _run_in_sweep(config: dict[str, Any], classify: bool, hydra_config: Any) -> None:
    from omkl.report import console

    # A launcher may run jobs in other processes, whose bars would write over each other.
    elsewhere = Sweep.folder is None
    if elsewhere:
        default_to_one_thread()
        Sweep.recall(Path(hydra_config.sweep.dir))
        if config["fail_fast"] and Sweep.has_failed(Path(hydra_config.sweep.dir)):
            return
    task = Sweep.task(config, hydra_config.runtime.output_dir, hydra_config.job.num)
    if task is None:
        return
    with_bar = _shows_bar(config) and not elsewhere
    with (
        one_thread_each() if elsewhere else contextlib.nullcontext(),
        console.Bar(task.label, config["seeds"], with_bar, classify) as progress,
    ):
        text, failed = Sweep.work(task, terminal.Interrupts.insisting(progress))
    if elsewhere:  # Lines tells it
        return
    print(text, flush=True)
    if failed and config["fail_fast"]:
        raise SystemExit(EXIT_FAILED)
