"""Which rounds weights are looked at in, and that looking changes nothing."""

import numpy as np
import pytest

from omkl.experiment import run as runner
from omkl.experiment.metrics import MOST_WEIGHTS, Recorder, WeightHistory, weight_curves
from tests.compositions import compose


def followed(T: int, expected: int | None, size: int, blank: int = 0) -> WeightHistory:
    """Weights that say the round; blocks of ``size`` rows, every ``blank``-th without a label."""
    history, t, row = WeightHistory(expected), 0, 0
    while t < T:
        known = np.ones(size, dtype=bool)
        if blank:
            known[(row + np.arange(size)) % blank == 0] = False
        known[np.cumsum(known) > T - t] = False
        before = t
        for piece in history.pieces(before, known):
            t += int(known[piece].sum())
            if history.wants(t):
                history.keep(t, np.array([float(t)]))
        row += size
    return history


@pytest.mark.parametrize("T", [1, 15, 16, 17, 511, 512, 513, 1503, 40_000])
@pytest.mark.parametrize("known", [True, False])
def test_the_rounds_depend_on_their_number_alone(T, known):
    rounds, weights = followed(T, T if known else None, 100).curve(T, np.array([float(T)]))
    again, _ = followed(T, None, 37, blank=5).curve(T, np.array([float(T)]))
    assert rounds.tolist() == again.tolist() == weights[:, 0].tolist()
    assert rounds[-1] == T and np.all(np.diff(rounds) > 0)
    assert min(T // 16, MOST_WEIGHTS // 2) <= len(rounds) <= MOST_WEIGHTS + 1
    recorder = Recorder(1)
    recorder.add(np.ones((1, T)))
    assert set(rounds) <= set(recorder.curve()[0])


def test_a_stream_of_a_known_length_is_cut_no_more_often_than_weights_are_kept():
    pieces = WeightHistory(100_000).pieces(0, np.ones(100_000, dtype=bool))
    assert MOST_WEIGHTS / 2 <= len(pieces) <= MOST_WEIGHTS + 1
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert [len(WeightHistory(None).pieces(0, np.ones(n, dtype=bool))) for n in (0, 1, 17)] == [
        1,
        1,
        2,
    ]


def test_curves_are_means_over_the_seeds():
    histories = [WeightHistory(20), WeightHistory(20)]
    for history, w in zip(histories, (0.2, 0.6), strict=True):
        history.keep(16, np.array([w, 1.0 - w]))
    found = weight_curves(histories, 20, np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert found["weights_t"].tolist() == [16, 20]
    np.testing.assert_allclose(found["weights_over_time"], [[0.4, 0.6], [0.75, 0.25]])


def test_importance_goes_with_the_weights():
    never, later = np.full(2, np.nan), np.array([0.3, 0.7])
    history = WeightHistory(20)
    history.keep(16, np.ones(1), never)
    known = weight_curves([history], 20, np.ones((1, 1)), later[None], inputs=["area"])
    np.testing.assert_array_equal(known["importance_over_time"], [never, later])
    assert known["input_names"].tolist() == ["area", "past targets"]
    unknown = weight_curves([history], 20, np.ones((1, 1)), never[None], inputs=["area"])
    none = weight_curves([WeightHistory(20)], 20, np.ones((1, 1)), np.ones((1, 0)))
    assert unknown.keys() == none.keys() == {"weights_t", "weights_over_time"}


def test_a_run_keeps_the_weights_over_time_of_the_mean_seed(tmp_path):
    typed = ("algorithm=gf", "algorithm.M=3", "dataset.rows=400", "kernels=gaussian17", "D=4")
    quiet = ("seeds=2",)
    config = compose([*typed, *quiet, f"outputs={tmp_path}"])
    outcome = runner.run(config)
    assert outcome.status == "complete", outcome.run.result
    curves = outcome.run.curves
    assert curves["weights_t"].tolist() == [*range(16, 401, 16)]
    assert curves["weights_over_time"].shape == (25, 17)
    np.testing.assert_allclose(curves["weights_over_time"].sum(axis=1), 1.0)
    np.testing.assert_allclose(curves["weights_over_time"][-1], curves["weights"].mean(axis=0))
    job = runner.prepare(config)
    learners = [job.learner(seed, 1) for seed in (0, 1)]
    X, y = next(job.stream.blocks(400))
    for learner in learners:
        learner.partial_fit(X[:96], y[:96])
    np.testing.assert_array_equal(
        curves["weights_over_time"][5], np.mean([learner.weights for learner in learners], axis=0)
    )
