"""A saved learner goes on with the same bits, and a file that is none is an error that names it."""

import io
import json
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import omkl
from omkl import algorithms
from omkl.core.snapshot import Mismatch
from omkl.online import model_file
from omkl.online.model_file import ModelError

SMALL = {"kernels": "gaussian17", "D": 4}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)) * [1.0, 300.0]
X[[0, 3, 200], [1, 0, 0]] = np.nan
Y = 5000 + 200 * np.sin(np.nan_to_num(X[:, 0])) + RNG.normal(size=300)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("auto", {"inputs": ["a", "b"]}),
        ("gf", {"inputs": 2, "lags": 2, "interval": 0.9, **SMALL}),
        ("amkl_random", {"inputs": 2, "horizon": 300, **SMALL}),
        ("omkr", {"inputs": 2, "kernels": "gaussian17"}),
        ("auto", {"inputs": 2, "classes": ("low", "middle", "high")}),
        ("sfg", {"inputs": 2, "M": 5, "reading": "nearest", **SMALL}),
    ],
)
def test_a_loaded_learner_goes_on_with_the_same_bits(tmp_path, name, given):
    y = Y
    if "classes" in given:
        y = np.array(given["classes"])[np.digitize(Y, [4900, 5100])]
    learner, path = omkl.learner(name, **given), tmp_path / "model.npz"
    learner.partial_fit(X[:177], y[:177])
    learner.save(path)
    other = omkl.load_learner(path)
    assert (other.inputs, other.classes, other.n_rows) == (
        learner.inputs, learner.classes, learner.n_rows
    )  # fmt: skip
    np.testing.assert_array_equal(other.predict(X[:9]), learner.predict(X[:9]))
    for s in range(177, 180):
        assert other.predict_one(X[s]) == learner.predict_one(X[s])
        other.learn_one(X[s], y[s]), learner.learn_one(X[s], y[s])
    expected, found = (one.partial_fit(X[180:], y[180:]) for one in (learner, other))
    np.testing.assert_array_equal(found.y_hat, expected.y_hat)
    np.testing.assert_array_equal(found.spread, expected.spread)
    np.testing.assert_array_equal(found.low, expected.low)


def test_another_process_goes_on_with_the_same_bits(tmp_path):
    learner, path = omkl.learner("gf", inputs=2, seed=5, **SMALL), tmp_path / "model.npz"
    learner.partial_fit(X[:200], Y[:200])
    learner.save(path)
    np.savez(tmp_path / "rest.npz", X=X[200:], y=Y[200:])
    program = """
import sys, numpy, omkl
rest = numpy.load(sys.argv[2])
learner = omkl.load_learner(sys.argv[1])
print(learner.partial_fit(rest["X"], rest["y"]).y_hat.tobytes().hex())
"""
    said = subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "rest.npz")],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert bytes.fromhex(said) == learner.partial_fit(X[200:], Y[200:]).y_hat.tobytes()


def saved() -> bytes:
    learner = omkl.learner("gf", inputs=2, **SMALL)
    learner.partial_fit(X, Y)
    return learner.file()


def with_arrays(data: bytes, **changes) -> bytes:
    """The file with other arrays; None leaves one out."""
    arrays = dict(np.load(io.BytesIO(data))) | changes
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def with_head(data: bytes, **changes) -> bytes:
    head = json.loads(np.load(io.BytesIO(data))["settings"].tobytes())
    for key, value in changes.items():
        (head["learner"] if key in head["learner"] else head)[key] = value
    return with_arrays(data, settings=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8))


def with_declared_size(data: bytes, size: int) -> bytes:
    """The file with another size said of the first array in the archive's directory."""
    place = data.index(b"PK\1\2") + 24
    return data[:place] + struct.pack("<L", size) + data[place + 4 :]


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("something in the file was executed",))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"a,b,y\n1,2,3\n", "no model, or a damaged one"),
        (lambda data: data[: len(data) // 2], "no model, or a damaged one"),
        (lambda data: pickle.dumps(Trap()), "no model, or a damaged one"),
        (lambda data: data.replace(data[5000:5008], b"\0\1" * 4), "damaged"),
        (lambda data: with_declared_size(data, 200), "settings.npy is damaged"),
        (lambda data: with_declared_size(data, 2**30), "no model: it unpacks to 1,07"),
        (lambda data: with_arrays(data, settings=None), "there are no settings in it"),
        (lambda data: with_arrays(data, used=np.zeros(3)), "one has, and the other has not: used"),
        (lambda data: with_arrays(data, **{"learner.0.used": np.zeros(3, dtype=np.int64)}),
         "used is int64 (3,), where these settings have int64 (17,)"),
        (lambda data: with_arrays(data, **{"learner.0.rng": np.zeros(4)}),
         "rng is float64 (4,), where these settings have uint64 (4,)"),
        (lambda data: with_arrays(data, **{"learner.0.rng": np.array([Trap()], dtype=object)}),
         "Object arrays cannot be loaded"),
        (lambda data: with_head(data, format=2), "a model of format 2"),
        (lambda data: with_head(data, algorithm="os"), "there is no algorithm 'os'"),
        (lambda data: with_head(data, algorithm="raker"), "There are: eta, lam"),
        (lambda data: with_head(data, D=10**9), "describe a larger learner than the arrays"),
        (lambda data: with_head(data, D="4"), "D='4' is not a whole number"),
        (lambda data: with_head(data, learner={}), "are missing, or not known"),
        (lambda data: with_head(data, inputs=["a", "b", "c"]), "padded is float64 (17, 2, 8)"),
        (lambda data: with_arrays(data, **{"learner.0.state.n_kernels": np.full(2, 10**9)}),
         "n_kernels holds 1000000000, which is not in 0 .. 10"),
        (lambda data: with_arrays(data, **{"columns.moments": np.full((2, 20), np.inf)}),
         "moments holds inf, where numbers are finite"),
    ],
)  # fmt: skip
def test_what_is_no_model_is_an_error_that_names_it(tmp_path, spoil, message):
    path = tmp_path / "strange.npz"
    path.write_bytes(spoil(saved()))
    with pytest.raises(ModelError) as error:
        omkl.load_learner(path)
    assert str(path) in str(error.value) and message in str(error.value)


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_is_saved_and_pickled_and_no_forged_number_is_believed(tmp_path, name):
    """Before its first round: rounds compile, and conformance plays them.

    Compiled code reads memory at the places that whole numbers name.
    """
    classes = "ab" if algorithms.load(name).task == "classification" else None
    learner = omkl.learner(name, inputs=2, horizon=100, classes=classes, **SMALL)
    learner.save(tmp_path / "model.npz")
    own = learner.arrays()
    for other in (omkl.load_learner(tmp_path / "model.npz"), pickle.loads(pickle.dumps(learner))):
        assert other.settings == learner.settings
        for key, array in own.items():
            np.testing.assert_array_equal(other.arrays()[key], array)
    learner.restore(own)
    for key, array in own.items():
        forged: list[float] = []
        if array.dtype.kind == "i":
            forged = [-(2**60), 2**60]
        elif array.dtype.kind == "f" and np.isfinite(array).all():
            forged = [np.nan, np.inf]
        for number in forged if array.size else []:
            changed = array.copy()
            changed.flat[array.size - 1] = number
            with pytest.raises(Mismatch, match=rf"^({key}|{key.split('.', 2)[-1]}) "):
                learner.restore(own | {key: changed})


def test_a_classifier_that_every_row_has_updated_is_read(tmp_path):
    """The last row counts among its vectors, and is not held for good before the next one."""
    learner = omkl.learner("omkc_da_o", inputs=2, kernels="gaussian17", classes=["no", "yes"])
    for s, label in enumerate(["yes", "no"] * 4):
        learner.partial_fit(X[10 + s : 11 + s], [label])
        learner.save(tmp_path / "model.npz")
        other = omkl.load_learner(tmp_path / "model.npz")
        np.testing.assert_array_equal(other.predict(X[20:30]), learner.predict(X[20:30]))


@pytest.mark.parametrize(("name", "longer"), [("omkr", ("x",)), ("omkc_da_p1", ("x", "alpha"))])
def test_arrays_that_grow_have_room_for_the_same_rows(name, longer):
    classes = "ab" if name.startswith("omkc") else None
    learner = omkl.learner(name, inputs=2, classes=classes, kernels="gaussian17")
    own, head = learner.arrays(), "learner.0.state.model."
    grown = {
        key: np.concatenate([array, array], axis=-1)
        for key, array in own.items()
        if key.startswith(head) and array.shape[-1] == 64
    }
    learner.restore(own | grown)
    with pytest.raises(Mismatch, match=r"where these settings have"):
        learner.restore(own | {head + field: grown[head + field] for field in longer})


def test_a_learner_that_is_too_large_to_be_packed_is_written_as_it_is(tmp_path, monkeypatch):
    packed, whole = tmp_path / "packed.npz", tmp_path / "whole.npz"
    packed.write_bytes(saved())
    monkeypatch.setattr(model_file, "MOST_UNPACKED", 5_000)
    whole.write_bytes(saved())
    assert not any(entry.compress_type for entry in zipfile.ZipFile(whole).infolist())
    assert omkl.load_learner(whole).n_rows == 300
    with pytest.raises(ModelError, match=r"packed\.npz: no model: it unpacks to .* most 5,000"):
        omkl.load_learner(packed)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"gone\.npz: No such file"):
        omkl.load_learner(tmp_path / "gone.npz")


def test_a_model_of_other_sources_goes_on_with_a_warning(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(with_head(saved(), code="0" * 16))
    with pytest.warns(UserWarning, match=r"model\.npz was written by omkl .* with other sources"):
        learner = omkl.load_learner(path)
    assert learner.n_rows == 300
    assert model_file.read(path).code == "0" * 16


def test_a_model_that_other_sources_keep_in_another_way_is_not_called_damaged(tmp_path):
    path, older = tmp_path / "model.npz", with_head(saved(), code="0" * 16)
    path.write_bytes(with_arrays(older, **{"learner.0.used": None}))
    with pytest.raises(ModelError, match=r"with other sources than these.*used.*or learn anew"):
        omkl.load_learner(path)


@pytest.mark.parametrize("classes", [None, ("low", "high")])
def test_auto_is_loaded_after_rows_with_missing_inputs(tmp_path, classes):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2))
    rows[::7, 1] = np.nan
    y = np.array(classes)[(rows[:, 0] > 0).astype(int)] if classes else rows[:, 0]
    learner = omkl.learner("auto", inputs=2, classes=classes)
    learner.partial_fit(rows, y)
    learner.save(tmp_path / "model.npz")
    loaded = omkl.load_learner(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(rows), learner.predict(rows))
