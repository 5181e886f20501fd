"""A job: everything that is checked and built before the first round."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omkl import algorithms, federated
from omkl.core import hyperparameters, kernels
from omkl.core.learner import check_precision
from omkl.core.protocol import Algorithm
from omkl.datasets import Stream, download, label_sources, open_stream, open_streams
from omkl.experiment.federation import FederatedJob
from omkl.experiment.federation import prepare as prepare_federated
from omkl.experiment.settings import check_settings, named_by_content, with_task
from omkl.runs import folder as run_folder

Progress = Callable[[str, int, int | None, float | None], None]
"""progress(stage, done, total, running MSE): called between blocks."""

FEATURES = 50  # D of a learner without a federation
UNKNOWN_HORIZON = 10**6  # stands for the length of a stream that is not open yet
MOST_GIGABYTES = 8.0  # of coefficients that an exact-kernel learner may keep


class Job(NamedTuple):
    """Everything that has been checked and built before the first round.

    ``streams`` has one a seed: in a regression all the same, in a classification that is
    shuffled each seed its own permutation. ``stream`` is the first.
    """

    config: dict[str, Any]
    stream: Stream
    dictionary: tuple[kernels.Kernel, ...]
    algorithm: Algorithm
    params: Any
    seeds: list[int]
    label: label_sources.Label | None = None  # who is asked; None: the data
    streams: list[Stream] = []  # noqa: RUF012


def prepare(config: Mapping[str, Any]) -> Job | FederatedJob:
    """Check a configuration against the data, and build what it names.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
    """
    check_settings(config)
    config = with_task(config)
    if config["federation"]["name"] != "none":
        together = prepare_federated(config)
        return together._replace(config=named_by_content(together.config, together.stream))
    if config["algorithm"]["name"] in federated.names():
        raise ValueError(
            f"{config['algorithm']['name']} learns in a federation: add federation=iid clients=K, "
            "federation=by_site or federation=column"
        )
    if config["clients"] is not None:
        raise ValueError(f"clients={config['clients']} is for a federation: add federation=iid")
    if config["D"] is None:
        config["D"] = FEATURES
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = algorithms.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"]}
    # Once before the data are opened: a wrong number should not wait for a large file.
    hyperparameters.build(algorithm.Params, given, UNKNOWN_HORIZON, sizes)
    check_precision(algorithm, config["precision"])
    classify = algorithm.task == "classification"
    if algorithm.representation.draws_features:
        for kernel in dictionary:
            kernel.require_frequencies()
    own_order = classify and config["stream"]["order"] == "shuffled"
    # Of a learner that draws nothing, as with exact kernels, one repetition says all.
    n_seeds = 1 if algorithm.deterministic and not own_order else config["seeds"]
    seeds = [config["seed"] + r for r in range(n_seeds)]
    streams = [_opened(config)] * n_seeds
    if own_order:
        streams = open_streams(config["dataset"], config["stream"], seeds)
    stream = streams[0]
    built = hyperparameters.build(algorithm.Params, given, stream.n_rounds, sizes)
    if not stream.labelled and (n_seeds > 1 or classify):
        raise ValueError(
            f"stream.labels={config['stream']['labels']} is asked by one learner of a regression, "
            f"and there are {n_seeds} seeds; set seeds=1"
        )
    if not (algorithm.representation.bounded or classify):
        _require_memory(len(algorithm.kernels(built, dictionary)), stream)
    portable = named_by_content(config, stream)
    return Job(portable, stream, dictionary, algorithm, built, seeds, streams=streams)


_streams: dict[str, tuple[tuple[Any, ...] | None, Stream]] = {}

_STREAM_BYTES = 2**28  # of the rows that are kept between the jobs of one process


def _opened(config: Mapping[str, Any]) -> Stream:
    """The stream of a configuration; the jobs of one process read and prepare a file once."""
    dataset, settings, seed = config["dataset"], config["stream"], config["seed"]
    shuffle = seed if settings["order"] == "shuffled" else None
    name = run_folder.key_of({"dataset": dataset, "stream": settings, "shuffle": shuffle})
    stamp = _file_stamp(dataset)
    if name in _streams and _streams[name][0] == stamp:
        return _streams[name][1]
    stream = open_stream(dataset, settings, seed=seed)
    _streams[name] = (_file_stamp(dataset), stream)
    while len(_streams) > 1 and sum(map(_bytes_of, _streams.values())) > _STREAM_BYTES:
        _streams.pop(next(iter(_streams)))
    return stream


def _bytes_of(held: tuple[Any, Stream]) -> int:
    stream = held[1]
    return 8 * (stream.n_rounds or 0) * (stream.n_inputs + 1)


def _file_stamp(dataset: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What changes with the file of a data set; None where there is no such file."""
    path = download.locate(dataset["file"]) if "file" in dataset else dataset.get("path")
    try:
        facts = os.stat(Path(str(path)).expanduser())
    except OSError:  # opening it tells what is wrong
        return None
    return str(path), facts.st_mtime_ns, facts.st_size


def _require_memory(n_kernels: int, stream: Stream) -> None:
    """Exact kernels that keep every row: refuse what cannot be held."""
    if stream.n_rounds is None:
        return
    gigabytes = stream.n_rounds * (n_kernels + stream.n_inputs) * 8 / 1e9
    if gigabytes > MOST_GIGABYTES:
        raise ValueError(
            f"exact kernels would keep {stream.n_rounds} rows for {n_kernels} kernels, "
            f"{gigabytes:.0f} GB; set stream.limit, choose fewer kernels, or a learner with "
            "random features"
        )
