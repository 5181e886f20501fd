"""Data sets as streams: real ones where their files are found, own files, synthetic data."""

import json
import math
import statistics
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pooch import file_hash

from omkl.commands import data
from omkl.core.kernels import FAMILIES
from omkl.core.rng import ASKING, FEATURES, NOISE, generator, generators, party_generators
from omkl.datasets import DataError, catalogue, columns, open_stream, read, scaling, schema
from omkl.datasets.synthetic import SyntheticSource
from tests.conftest import catalogued
from tests.datasets.helpers import COLUMNS, RAW, WHOLE, collect, own, write

# --- The catalogue ---------------------------------------------------------------------

SHAPES = {
    "airfoil": (1503, 5), "concrete": (1030, 8), "bias": (7752, 21), "naval": (11934, 15),
    "naval_decay": (11934, 16), "wine": (4898, 11), "wine_white": (4898, 11),
    "wine_red": (1599, 11), "energy": (18604, 25), "energy_raw": (18604, 25),
    "air_quality": (7322, 13), "toms": (9725, 96), "twitter": (13813, 77),
}  # fmt: skip


@pytest.mark.real_data
@pytest.mark.parametrize("name", SHAPES)
def test_real_data_have_the_published_size_and_are_scaled(name):
    stream = open_stream(catalogued(name), WHOLE)
    x, y = collect(stream)
    assert x.shape == (stream.n_rounds, stream.n_inputs) == SHAPES[name]
    assert y.min() == 0.0 and y.max() == 1.0
    assert np.linalg.norm(x, axis=1).max() == pytest.approx(1.0)
    assert stream.truth(10) is None and stream.change_rounds == ()


@pytest.mark.real_data
def test_airfoil_is_its_text_file_scaled():
    cfg = catalogued("airfoil")
    table = np.loadtxt(catalogue.locate(cfg["file"]))
    x, y = collect(open_stream(cfg, WHOLE))
    np.testing.assert_allclose(
        x, table[:, :5] / np.linalg.norm(table[:, :5], axis=1).max(), rtol=1e-15
    )
    np.testing.assert_array_equal(
        y, (table[:, 5] - table[:, 5].min()) / (table[:, 5].max() - table[:, 5].min())
    )


@pytest.mark.real_data
def test_naval_predicts_the_lever_and_naval_decay_the_turbine():
    cfg, decay = catalogued("naval"), catalogued("naval_decay")
    table = np.loadtxt(catalogue.locate(cfg["file"]))
    x, y = collect(open_stream(cfg, RAW))
    np.testing.assert_array_equal(np.column_stack([y, x]), table[:, :16])
    x, y = collect(open_stream(decay, RAW))
    np.testing.assert_array_equal(np.column_stack([x, y]), table[:, [*range(16), 17]])


@pytest.mark.real_data
def test_bias_fills_blanks_with_the_mean_over_all_rows():
    cfg = catalogued("bias")
    frame = pd.read_csv(catalogue.locate(cfg["file"]))
    filled = frame.iloc[:, 2:].fillna(frame.iloc[:, 2:].mean())
    assert int(frame.iloc[:, 2:].isna().any(axis=1).sum()) == 162
    x, y = collect(open_stream(cfg, RAW | {"limit": 5000}))
    np.testing.assert_allclose(x, filled.iloc[:5000, :21], rtol=1e-13)
    np.testing.assert_allclose(y, filled["Next_Tmin"].iloc[:5000], rtol=1e-13)
    assert open_stream(cfg | {"missing": "drop"}, WHOLE).n_rounds == 7752 - 162
    with pytest.raises(DataError, match=r"row \d+, column '\w+' is missing.*missing=mean"):
        open_stream(cfg | {"missing": "error"}, WHOLE)


@pytest.mark.real_data
def test_air_quality_equals_the_prepared_file_of_its_authors():
    prepared = catalogue.locate("omkl_gf_icml2020/AirData.mat")
    if prepared is None:
        pytest.skip("AirData.mat is not in any data folder; runs where the data are found")
    import scipy.io

    theirs, entry = scipy.io.loadmat(prepared), catalogued("air_quality")
    np.testing.assert_array_equal(collect(open_stream(entry, RAW))[0], theirs["X"].T)
    np.testing.assert_array_equal(collect(open_stream(entry, WHOLE))[1], theirs["y"][:, 0])


@pytest.mark.real_data
def test_energy_raw_makes_the_prepared_file_of_its_authors():
    x, y = collect(open_stream(catalogued("energy"), WHOLE))
    x_raw, y_raw = collect(open_stream(catalogued("energy_raw"), WHOLE))
    np.testing.assert_array_equal(y_raw, y)
    np.testing.assert_allclose(x_raw, x, rtol=0, atol=2e-15)


@pytest.mark.real_data
def test_provenance_says_where_the_numbers_come_from():
    provenance = open_stream(catalogued("concrete"), WHOLE).provenance
    assert json.loads(json.dumps(provenance)) == provenance
    assert provenance["files"][0]["name"] == "concrete/Concrete_Data.xls"
    assert provenance["files"][0]["sha256"].startswith("710076c6")
    assert provenance["uci"] == 165 and provenance["licence"] == "CC BY 4.0"
    assert provenance["scaling"]["kind"] == "whole"
    assert provenance["scaling"]["target_max"] == pytest.approx(82.599, abs=1e-3)


def test_every_entry_of_a_published_data_set_is_complete():
    """That all compose as in Hydra: ``tests/commands/test_configs.py``."""
    for name, shape in SHAPES.items():
        entry = catalogue.entry(name)
        assert (entry["rows"], columns.count_inputs(entry["inputs"])) == shape
        assert entry["name"] == name and len(entry["sha256"]) == 64


# --- Limit, order, blocks -----------------------------------------------------------------


@pytest.fixture
def small(tmp_path, monkeypatch) -> dict[str, Any]:
    """A catalogue entry of eight rows: a counts up, y = 10 a."""
    monkeypatch.setattr(catalogue, "project_root", lambda: tmp_path / "checkout")
    folder = tmp_path / "checkout/data/small"
    folder.mkdir(parents=True)
    write(folder / "small.csv", "a,y\n" + "".join(f"{k},{10 * k}\n" for k in range(1, 9)))
    return {"name": "small", "file": "small/small.csv", "format": "csv", "target": "y"}


def test_limit_comes_after_the_shuffle_and_before_the_scaling(small):
    x, y = collect(open_stream(small, WHOLE | {"limit": 4}))
    np.testing.assert_array_equal(x[:, 0], [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(y, [0, 1 / 3, 2 / 3, 1])
    order = np.random.default_rng(7).permutation(8)[:4] + 1
    x, y = collect(open_stream(small, RAW | {"limit": 4, "order": "shuffled"}, seed=7))
    np.testing.assert_array_equal(x[:, 0], order)
    np.testing.assert_array_equal(y, 10 * order)
    assert open_stream(small, RAW | {"limit": 100}).n_rounds == 8


def test_an_entry_of_the_catalogue_is_read_as_an_own_file(small):
    path = catalogue.project_root() / "data" / small["file"]
    write(path, "a,colour,day,y\n1,red,2024-02-13,10\n2,blue,2024-02-14,20\n3,red,,30\n")
    stream = open_stream(small | {"missing": "mean"}, RAW)
    kinds = [column["as"] for column in stream.provenance["columns"]]
    assert kinds == ["numbers", "categories", "date"]
    own_stream = open_stream(own(path, name="small"), RAW)
    assert stream.inputs == own_stream.inputs
    assert collect(stream)[0].tolist() == collect(own_stream)[0].tolist()
    named = open_stream(small | {"inputs": ["a"]}, RAW)
    assert "columns" not in named.provenance, "what is named leaves out by name"


def test_every_pass_starts_anew_and_no_size_changes_a_number(small, monkeypatch):
    monkeypatch.setattr(read, "CHUNK_ROWS", 3)
    stream = open_stream(small, WHOLE)
    once = collect(stream, 100)
    for size in (1, 2, 3, 5, 8):
        for first, again in zip(once, collect(stream, size), strict=True):
            np.testing.assert_array_equal(first, again)
    with pytest.raises(ValueError, match="size=0"):
        next(stream.blocks(0))


def test_a_consumer_that_overwrites_a_block_spoils_no_later_pass(small):
    stream = open_stream(small, RAW)
    for x, y in stream.blocks(3):
        x[:] = y[:] = np.nan
    assert np.isfinite(collect(stream)[0]).all()


# --- Scaling as it goes ----------------------------------------------------------------------


def columns_row_by_row(x: np.ndarray) -> list[list[float]]:
    """(x - mean) / deviation of rows 1..t; 0 where blank or nothing has moved."""
    found = []
    for t, row in enumerate(x):
        found.append([])
        for k, value in enumerate(row):
            seen = [v for v in x[: t + 1, k] if not math.isnan(v)]
            if math.isnan(value) or max(seen) == min(seen):
                found[-1].append(0.0)
            else:
                found[-1].append((value - statistics.fmean(seen)) / statistics.pstdev(seen))
    return found


# No value is so far out that it counts as less (tests/core/test_robust_moments.py).
cells = st.one_of(st.integers(-3, 3), st.just(math.nan))


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(cells, cells, st.integers(-3, 3)), min_size=2, max_size=40),
    size=st.integers(1, 45),
    chunk=st.integers(1, 45),
    lags=st.integers(0, 3),
)
# The 31st is 5.5 deviations out.
@example(rows=[(0, 0, 0)] * 30 + [(50, -50, 50), (0, 0, 0)], size=7, chunk=9, lags=1)
def test_columns_are_scaled_by_what_was_seen_so_far(tmp_path, rows, size, chunk, lags):
    table = np.array(rows, dtype=float) / 8 + 1000
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": table[:, 0], "b": table[:, 1], "y": table[:, 2]}), path)
    cfg = own(path, target="y", inputs=["a", "b"], missing="mean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "CHUNK_ROWS", chunk)
        stream = open_stream(cfg, COLUMNS | {"lags": lags})
        x, y = collect(stream, size)
        whole = collect(stream, 100)
    np.testing.assert_array_equal(x, whole[0])
    assert x.shape[1] == stream.n_inputs == len(stream.inputs) == 2 + lags
    np.testing.assert_allclose(x[:, :2], columns_row_by_row(table[:, :2]), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(y, table[:, 2])
    for t, k in np.ndindex(len(y), lags):
        before = y[:t]
        there = t > k and before.std() > 0
        z = (y[t - 1 - k] - before.mean()) / before.std() if there else 0.0
        assert x[t, 2 + k] == pytest.approx(z, rel=1e-9, abs=1e-9)


def test_no_scaled_row_depends_on_a_later_one_or_on_its_own_label(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 3))

    def streamed(values: np.ndarray) -> np.ndarray:
        write(tmp_path / "t.csv", "a,b,y\n" + "\n".join(",".join(map(str, v)) for v in values))
        return collect(open_stream(own(tmp_path / "t.csv", target="y"), COLUMNS | {"lags": 2}))[0]

    first = streamed(table)
    table[30, 2] *= 1e6
    table[31:] *= -7e3
    np.testing.assert_array_equal(streamed(table)[:31], first[:31])
    assert not np.array_equal(streamed(table)[31], first[31])


def test_labels_are_scaled_by_those_before_and_come_back():
    y = np.array([7.0, 7.0, 9.0, 8.0, 1e9, -3.0])
    known = scaling.TargetScaler(0, True).take(y)
    given = known.scaled
    # No unit yet: 0, then as far out as the third of three numbers can be.
    np.testing.assert_allclose(given[:3], [0.0, 0.0, math.sqrt(2)])
    assert given[3] == pytest.approx((8 - 23 / 3) / np.std(y[:3]))
    assert given[4] == 2.0, "four labels before it"
    inside = [3, 5]
    np.testing.assert_allclose((known.centre + known.unit * given)[inside], y[inside])
    assert known.centre.tolist()[:3] == [0.0, 7.0, 7.0]


def test_lags_of_the_papers_scaling_are_labels_as_they_are_streamed(small):
    x, y = collect(open_stream(small, WHOLE | {"lags": 2}))
    np.testing.assert_array_equal(x[:, 1], [0.0, *y[:-1]])
    np.testing.assert_array_equal(x[:, 2], [0.0, 0.0, *y[:-2]])
    stream = open_stream(small, WHOLE | {"lags": 1})
    assert stream.inputs == ("a", "y 1 before") and stream.provenance["lags"] == 1
    assert "lags" not in open_stream(small, WHOLE).provenance
    for lags in (-1, True, 1.5):
        with pytest.raises(DataError, match=r"stream.lags=.* is not a whole number of at least 0"):
            open_stream(small, WHOLE | {"lags": lags})


# --- Own files --------------------------------------------------------------------------------

HOUSES = "id,area,street,price\n1,50,A,100\n2,80,B,170\n3,65.5,A,140\n4,30,C,60\n"


def test_columns_by_name_by_position_and_in_the_order_asked_for(tmp_path):
    write(tmp_path / "houses.csv", HOUSES)
    pd.read_csv(tmp_path / "houses.csv").to_parquet(tmp_path / "houses.parquet")
    for name in ("houses.csv", "houses.parquet"):
        stream = open_stream(own(tmp_path / name, target=2, inputs=["price", 1]), RAW)
        assert (stream.inputs, stream.target) == (("price", "id"), "area")
        np.testing.assert_array_equal(collect(stream)[0][0], [100, 1])
    headless = write(tmp_path / "plain.csv", "1;2,5\n3;4\n")
    cfg = own(headless, header=False, delimiter=";", decimal=",", target=2)
    np.testing.assert_array_equal(collect(open_stream(cfg, RAW))[1], [2.5, 4.0])


def test_rounds_are_known_where_nothing_needs_to_be_read(tmp_path):
    write(tmp_path / "houses.csv", HOUSES)
    pd.read_csv(tmp_path / "houses.csv").to_parquet(tmp_path / "houses.parquet")
    parquet = own(tmp_path / "houses.parquet", target="price", missing="error")
    csv = own(tmp_path / "houses.csv", target="price")
    assert open_stream(parquet, COLUMNS | {"limit": 3}).n_rounds == 3
    assert open_stream(csv, WHOLE | {"limit": 3}).n_rounds == 3
    assert open_stream(csv, COLUMNS).n_rounds is None
    assert open_stream(parquet | {"missing": "drop"}, COLUMNS).n_rounds is None


def test_blanks_are_refused_dropped_or_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "CHUNK_ROWS", 2)
    path = write(tmp_path / "gaps.csv", "a,y\n1,10\n3,20\n,30\n8,40\n,50\n")
    cfg = own(path, target="y")

    def inputs(missing: str, stream_cfg: dict) -> list[float]:
        return collect(open_stream(cfg | {"missing": missing}, stream_cfg))[0][:, 0].tolist()

    with pytest.raises(DataError, match=r"gaps.csv: row 3, column 'a' is missing.*missing=drop"):
        inputs("error", WHOLE)
    assert inputs("drop", RAW) == [1, 3, 8]
    assert inputs("mean", RAW) == [1, 3, 4, 8, 4]
    # With columns a blank is the mean so far, which is 0, and only earlier rows count.
    found = inputs("mean", COLUMNS)
    assert found[:3] == [0, 1, 0] and found[4] == 0
    assert found[3] == pytest.approx(4 / np.std([1, 3, 8]))
    write(path, "a,y\n,10\n3,20\n")
    assert inputs("mean", COLUMNS) == [0, 0]


def test_a_blank_target_is_predicted_never_made_up(tmp_path):
    path = write(tmp_path / "gaps.csv", "a,y\n1,10\n3,\n5,30\n8,\n9,50\n")
    for options in (COLUMNS, RAW, WHOLE):
        stream = open_stream(own(path, target="y", missing="mean"), options)
        x, y = collect(stream)
        assert len(x) == len(y) == 3
        np.testing.assert_array_equal(y, [0, 0.5, 1] if options is WHOLE else [10, 30, 50])
        (every,) = stream.rows(10)
        assert every.rows.tolist() == [1, 2, 3, 4, 5]
        assert np.isnan(every.y).tolist() == [False, True, False, True, False]
        assert np.isfinite(every.x).all()
    assert stream.n_rounds == 3, "counted in advance"
    lagged = next(open_stream(own(path, target="y", missing="mean"), RAW | {"lags": 1}).rows(10))
    assert lagged.x[:, 1].tolist() == [0, 10, 10, 30, 30], "the last known"
    with pytest.raises(DataError, match="row 2, column 'y' is missing"):
        collect(open_stream(own(path, target="y", missing="error"), RAW))
    (dropped,) = open_stream(own(path, target="y", missing="drop"), RAW).rows(10)
    assert dropped.rows.tolist() == [1, 3, 5]


# --- What is wrong, in words -----------------------------------------------------------------


def test_errors_of_paths_and_an_encoding(tmp_path):
    path = write(tmp_path / "houses.csv", HOUSES)
    with pytest.raises(DataError, match=r"no data file .* Did you mean 'houses.csv'\?"):
        open_stream(own(tmp_path / "house.csv", target="price"), WHOLE)
    with pytest.raises(DataError, match=r"no folder .*nowhere"):
        open_stream(own(tmp_path / "nowhere/house.csv", target="price"), WHOLE)
    with pytest.raises(DataError, match=r"must end in one of .csv, .csv.gz, .tsv"):
        open_stream(own(tmp_path / "house.doc", target="price"), WHOLE)
    with pytest.raises(DataError, match=r"say which file: dataset.path=PATH"):
        open_stream(own(path) | {"path": None}, WHOLE)
    (tmp_path / "latin.csv").write_bytes("größe,y\n1,2\n3,4\n".encode("latin-1"))
    stream = open_stream(own(tmp_path / "latin.csv", target="y", encoding="latin-1"), WHOLE)
    assert stream.inputs == ("größe",)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (WHOLE | {"scaling": "half"}, "stream.scaling='half' is none of columns, whole, none"),
        (WHOLE | {"order": "random"}, "stream.order='random' is none of file, shuffled"),
        (WHOLE | {"limit": 1}, "stream.limit=1 is not a whole number of at least 2, or null"),
        (WHOLE | {"order": "shuffled"}, "independent of each other .* another dataset.seed"),
    ],
)
def test_errors_of_stream_options(cfg, message):
    with pytest.raises(DataError, match=message):
        open_stream(catalogue.entry("synthetic"), cfg)


def test_errors_of_catalogue_files(small, tmp_path):
    with pytest.raises(DataError, match="leaves 8 rows, 9 were expected"):
        open_stream(small | {"rows": 9}, WHOLE)
    with pytest.raises(DataError, match=r"there is no dataset.prepare.shuffle"):
        open_stream(small | {"prepare": {"shuffle": True}}, WHOLE)
    with pytest.raises(DataError, match="needs one of the keys 'file'"):
        open_stream({"name": "small"}, WHOLE)
    with pytest.raises(DataError, match=r"dataset.columns names 1 columns, the file has 2"):
        open_stream(small | {"columns": ["a"]}, WHOLE)
    with pytest.raises(DataError) as corrupt:
        open_stream(small | {"sha256": "0" * 64}, WHOLE)
    path = tmp_path / "checkout/data/small/small.csv"
    for part in (str(path), "0" * 64, file_hash(path), "Delete it", "sha256=null"):
        assert part in str(corrupt.value)


@pytest.mark.parametrize("name", ["energy", "toms", "twitter", "twitter_large"])
def test_a_missing_file_that_cannot_be_fetched_says_where_it_comes_from(
    name, tmp_path, monkeypatch
):
    monkeypatch.setattr(catalogue, "project_root", lambda: tmp_path / "checkout")
    monkeypatch.setenv("OMKL_DATA_DIR", str(tmp_path / "mine"))
    cfg = catalogue.entry(name)
    with pytest.raises(DataError) as missing:
        open_stream(cfg, WHOLE)
    for folder in ("mine", "checkout/data", "shared/data"):
        assert str(tmp_path / folder) in str(missing.value)
    assert f"{cfg['file']} was not found" in str(missing.value)
    assert cfg["url"] in str(missing.value)
    assert cfg["by_hand"].split(".")[0] in str(missing.value)
    assert ("energy_raw" in str(missing.value)) == (name == "energy")


def test_the_large_twitter_file_is_read_where_a_user_has_it(tmp_path, monkeypatch):
    import scipy.io

    X, y = np.arange(154.0).reshape(77, 2) / 154, np.array([[0.25], [1.0]])
    path = tmp_path / catalogue.entry("twitter_large")["file"]
    path.parent.mkdir()
    scipy.io.savemat(path, {"X": X, "y": y})
    monkeypatch.setenv("OMKL_DATA_DIR", str(tmp_path))
    entry = catalogue.entry("twitter_large") | {"rows": 2}
    read = next(open_stream(entry, WHOLE | {"scaling": "none"}).blocks(10))
    np.testing.assert_array_equal(read[0], X.T)
    np.testing.assert_array_equal(read[1], y[:, 0])


# --- Synthetic data ------------------------------------------------------------------------------


def test_synthetic_rows_do_not_depend_on_how_many_are_asked_for():
    cfg = catalogue.entry("synthetic")
    x, y = collect(open_stream(cfg | {"rows": 9000}, RAW))
    x_few, y_few = collect(open_stream(cfg | {"rows": 5000}, RAW | {"limit": 4500}), 7)
    np.testing.assert_array_equal(x[:4500], x_few)
    np.testing.assert_array_equal(y[:4500], y_few)
    assert np.linalg.norm(x, axis=1).max() <= 1.0
    assert not np.array_equal(y, collect(open_stream(cfg | {"rows": 9000, "seed": 1}, RAW))[1])


def test_rows_and_features_of_a_seed_have_nothing_to_do_with_each_other():
    """What the stream draws from a seed is nobody else's: no two generators begin alike."""
    source = SyntheticSource(catalogue.entry("synthetic") | {"seed": 0})
    begin = [np.random.default_rng(0), generator(0, FEATURES), *party_generators(0, 9),
             generator(0, ASKING), *generators(0, NOISE, 9)]  # fmt: skip
    taken = {str(rng.bit_generator.state["state"]) for rng in begin}
    assert len(taken) == len(begin)
    for key in ((0,), (1,), (2, 0), (2, 1)):
        assert str(source._generator(*key).bit_generator.state["state"]) not in taken


def test_the_truth_is_the_target_without_its_noise():
    cfg = catalogue.entry("synthetic")
    stream = open_stream(cfg, RAW)
    y, truth = collect(stream)[1], np.concatenate(list(stream.truth(333)))
    assert np.std(y - truth) == pytest.approx(cfg["noise"], rel=0.05)
    assert -0.1 < truth.min() < 0.2 and 0.8 < truth.max() < 1.1
    for options in (WHOLE, COLUMNS):
        silent = open_stream(cfg | {"noise": 0.0}, options)
        np.testing.assert_array_equal(collect(silent)[1], np.concatenate(list(silent.truth(1000))))


@pytest.mark.parametrize("change_at", [3001, 0.6])
def test_the_target_changes_at_the_round_that_is_announced(change_at):
    cfg = catalogue.entry("synthetic") | {"noise": 0.0}
    changed = cfg | {
        "change_at": change_at,
        "kernel_after": {"family": "laplacian", "bandwidth": 1.0},
    }
    stream = open_stream(changed, RAW)
    assert stream.change_rounds == (3001,)
    same = collect(open_stream(cfg, RAW))[1] == collect(stream)[1]
    assert same[:3000].all() and not same[3000:].any()
    assert open_stream(changed, RAW | {"limit": 3000}).change_rounds == ()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rows": 1}, "dataset.rows=1 is not a whole number of at least 2"),
        ({"noise": -1}, "dataset.noise=-1"),
        ({"change_at": 5001}, "change_at=5001 must be a row from 2 to 5000"),
        ({"kernel": {"family": "box", "bandwidth": 1}}, "family='box' is none of gaussian"),
        ({"kernel": {"family": "gaussian", "bandwidth": 0}}, "bandwidth=0 is not a number"),
        ({"kernel": {"family": "gaussian", "bandwidth": 1e-9}}, "Choose another bandwidth"),
    ],
)
def test_errors_of_synthetic_data(keys, message):
    with pytest.raises(DataError, match=message):
        open_stream(catalogue.entry("synthetic") | keys, WHOLE)


def test_a_synthetic_stream_has_any_kernel_with_a_spectrum():
    """Its schema names them once more, since it must not import the compiler."""
    families = get_args(schema.Spectrum.model_fields["family"].annotation)
    assert sorted(families) == sorted(name for name, family in FAMILIES.items() if family.spectrum)


# --- omkl-data ---------------------------------------------------------------------------------


def test_list_describe_and_compare(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OMKL_DATA_DIR", raising=False)
    monkeypatch.setattr(catalogue, "project_root", lambda: tmp_path / "checkout")
    assert data.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in catalogue.entries())
    assert "not here (fetch)" in listed and "made on the fly" in listed
    assert data.main(["describe", "naval"]) == 0
    described = capsys.readouterr().out
    for fact in ("11934 x 15", "lever_position", "de0ea69d", "CC BY 4.0", "Coraddu", "nowhere"):
        assert fact in described
    assert data.main(["describe", "nval"]) == 2
    assert "Did you mean naval?" in capsys.readouterr().err
    (tmp_path / "checkout/data/naval").mkdir(parents=True)
    write(tmp_path / "checkout/data/naval/data.txt", "not it\n")
    assert data.main(["fetch", "naval"]) == 1
    assert "expected sha256 de0ea69d" in capsys.readouterr().err
