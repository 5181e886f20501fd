"""Seals: what is damaged is named, left out of everything, and computed anew."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from omkl.commands import report
from omkl.config.compose import compose
from omkl.experiment import run as runner
from omkl.report import tracking
from omkl.report.tracking import TrackingError
from omkl.runs import provenance, run_folder, schema
from omkl.runs.run_folder import Run, find
from omkl.runs.writing import files_of_run
from omkl.utils import sources
from tests.runs.conftest import TINY

FILES = ("config.yaml", "curves.npz", "results.parquet", "predictions.parquet", "result.json")


def flip(path: Path) -> None:
    """Another value of one bit in the middle of a file."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def another_digit(path: Path) -> None:
    """34.93 becomes 94.93: still JSON, with all keys."""
    text = path.read_text()
    found = re.search(r'"mse_mean": 0\.0*([1-9])', text)
    assert found is not None
    digit = "9" if found[1] != "9" else "3"
    path.write_text(text[: found.start(1)] + digit + text[found.end(1) :])


def test_every_file_of_numbers_is_sealed(folder):
    result = json.loads((folder / "result.json").read_text())
    files = {path.name for path in folder.iterdir()}
    assert set(result["seal"]) == files and files - {"changes.diff"} == set(FILES)
    assert list(result)[-1] == "seal"
    assert Run(folder).problem is None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fault", [flip, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_file_is_named_and_never_found_finished(outputs, folder, name, fault):
    fault(folder / name)
    told: list[str] = []
    assert list(find(outputs, lambda run, problem: told.append(problem))) == []
    if (folder / "result.json").exists():
        assert told[0].startswith(name), told


def test_a_changed_digit_is_computed_anew_by_the_same_command(start, folder, capsys):
    right = Run(folder).result["mse_mean"]
    another_digit(folder / "result.json")
    assert Run(folder).result["mse_mean"] != right
    outcome = start()
    assert outcome.status == "complete"
    assert f"{folder.name} is damaged (result.json: it is not as it was written" in outcome.notes[0]
    assert outcome.run.result["mse_mean"] == right
    assert start().status == "reused"


def test_verify_of_a_misspelt_folder_is_no_success(tmp_path, capsys):
    assert report.main(["verify", "--outputs", str(tmp_path / "outpts")]) == 1
    assert f"there are no runs in {tmp_path / 'outpts' / 'runs'}" in capsys.readouterr().err


def test_verify_tells_each_damaged_run(outputs, folder, capsys, run_folder_maker):
    assert report.main(["verify", "--outputs", str(outputs)]) == 0
    assert "1 run in" in capsys.readouterr().out
    run_folder_maker(outputs, "gf")  # of a version that had no seals
    flip(folder / "curves.npz")
    assert report.main(["verify", "--outputs", str(outputs)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == (
        f"{folder}: damaged: curves.npz is not as it was written: its sha256 is another"
    )
    assert last.endswith("0 whole, 1 damaged, 1 without a seal")


def cut(folder: Path) -> None:
    (folder / "result.json").write_text('{"status": "comp')


def a_list(folder: Path) -> None:
    (folder / "result.json").write_text("[1, 2]")


def nested(folder: Path) -> None:
    (folder / "result.json").write_text("[" * 100_000)


def no_text(folder: Path) -> None:
    (folder / "result.json").write_bytes(b"\xff\xfe\x00")


def nearly_empty(folder: Path) -> None:
    (folder / "result.json").write_text('{"status": "complete"}')


def a_folder(folder: Path) -> None:
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()


def a_link(folder: Path) -> None:
    secret = folder.parents[3] / "secret.txt"
    secret.write_text("password")
    (folder / "notes.txt").symlink_to(secret)


def endless_config(folder: Path) -> None:
    """Ten lines that unfold to 10^9 parts; its seal is right."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    (folder / "config.yaml").write_text("\n".join(lines))
    run_folder.write_result(folder, Run(folder).result)


def deep_config(folder: Path) -> None:
    (folder / "config.yaml").write_text("a: " + "[" * 200_000)
    run_folder.write_result(folder, Run(folder).result)


@pytest.mark.parametrize(
    "fault",
    [cut, a_list, nested, no_text, nearly_empty, a_folder, a_link, endless_config, deep_config],
)
def test_one_bad_run_stops_nothing(
    outputs, folder, capsys, run_folder_maker, fault, empty_database
):
    shutil.copy(empty_database, outputs)
    run_folder_maker(outputs, "gf")
    fault(folder)
    for command in (["show"], ["table", "jmlr_table1"]):
        assert report.main([*command, "--outputs", str(outputs)]) == 0
        told = capsys.readouterr()
        assert f"omkl: {folder} is damaged and left out: " in told.err
    assert report.main(["verify", "--outputs", str(outputs)]) == 1
    with pytest.raises(TrackingError, match="cannot read the run folder"):
        tracking.log_run(folder, outputs)


def test_labels_are_sealed_once_a_run_is_complete(folder):
    (folder / "labels.csv").write_text("row,label\n1,0.5\n")
    assert Run(folder).problem == "labels.csv was not written by this run"
    failed = {**Run(folder).result, "status": "failed"}
    failed["error"] = {"type": "DataError", "message": "no more labels", "traceback": None}
    run_folder.write_result(folder, failed)
    with open(folder / "labels.csv", "a") as file:
        file.write("2,0.7\n")
    assert Run(folder).problem is None, "it grows while a run asks"
    run_folder.write_result(folder, {**failed, "status": "complete"})
    with open(folder / "labels.csv", "a") as file:
        file.write("3,0.8\n")
    assert Run(folder).problem == "labels.csv is not as it was written: its sha256 is another"


def test_a_sealed_text_is_whole_or_broken():
    text = schema.checksummed_text({"a": 1.5})
    assert schema.read_checksummed(text) == {"a": 1.5}
    for k in range(len(text)):
        with pytest.raises(schema.CorruptFileError):
            schema.read_checksummed(text[:k] + chr(ord(text[k]) ^ 1) + text[k + 1 :])


# --- keys -----------------------------------------------------------------------------------------


def test_keys_have_64_bits_and_the_whole_hash_is_kept(folder):
    result = Run(folder).result
    assert folder.name == f"raker-{result['key']}"
    assert len(result["key"]) == 16 and result["settings_sha256"].startswith(result["key"])
    assert len(result["numbers"]) == 16


def test_a_folder_of_other_settings_is_not_believed(start, folder):
    """As if two settings had one key."""
    other = Run(start("algorithm.eta=0.047").run.folder)
    shutil.rmtree(folder)
    shutil.copytree(other.folder, folder)
    outcome = start()
    assert outcome.status == "complete"
    assert outcome.notes == [f"{folder.name} holds the results of other settings: computed anew"]
    assert outcome.run.result["mse"] != other.result["mse"]


@pytest.mark.skipif(not sources.are_compiled(), reason="nothing is compiled in this session")
def test_plain_python_shares_neither_key_nor_stamp_nor_cache(start, folder, monkeypatch):
    config, stream = Run(folder).config, Run(folder).result["stream"]
    names: list[Callable[[], str]] = [
        lambda: provenance.identity_of(config).key,
        lambda: provenance.numbers_stamp(stream, {}),
        provenance.sources_digest,
    ]
    compiled = [name() for name in names]
    monkeypatch.setattr(sources, "are_compiled", lambda: False)
    provenance.sources_digest.cache_clear()
    try:
        assert not set(compiled) & {name() for name in names}
    finally:
        provenance.sources_digest.cache_clear()


# --- numbers that no file can hold ----------------------------------------------------------------


def test_a_summary_that_has_overflowed_loses_nothing(folder):
    result = Run(folder).result
    scores = ("log_loss", "coverage_50", "coverage_90", "interval_score_90")
    spread = {**dict.fromkeys(scores, 0.5), "width_90": float("nan")}
    spoilt = {"max_norm": float("inf"), "spread": spread, "mse": [0.5, 1.0]}
    run_folder.write_result(folder, result | spoilt | {"params": {"clip": float("inf")}})
    found = Run(folder)
    assert found.problem is None
    assert found.result["max_norm"] is None and found.result["spread"]["width_90"] is None
    assert found.result["params"] == {"clip": "inf"}, "what was given is told as it was given"


@pytest.mark.parametrize("scale", ["1e200", "1e-200"])
def test_a_run_of_extreme_inputs_is_kept_and_shown(start, outputs, tmp_path, capsys, scale):
    path = tmp_path / "extreme.csv"
    path.write_text("x,y\n" + "".join(f"{t % 3}{scale[1:]},{t % 5}\n" for t in range(40)))
    own = compose([
        "algorithm=raker", "D=2", "seeds=1", "tracking=none", "figures=false", *TINY[-2:],
        "dataset=file", f"dataset.path={path}", "dataset.target=y", "stream.scaling=none",
        f"outputs={outputs}",
    ])  # fmt: skip
    outcome = runner.run(own)
    assert outcome.status == "complete", outcome.run.result
    assert outcome.run.result["max_norm"] == pytest.approx(2 * float(scale))
    assert report.main(["show", "--outputs", str(outputs)]) == 0


def test_seeds_that_no_table_holds_are_refused(start):
    told = start("seed=9223372036854775807").run.result["error"]["message"]
    assert told == "seed=9223372036854775807 is too large: seeds are below 2^63"


def test_parameters_of_any_kind_are_in_the_table(folder):
    result = Run(folder).result | {"params": {"J": 2**80, "grid": [1, "a"], "name": None}}
    data = files_of_run({**Run(folder).config, "outputs": folder.parents[2]}, result, {}, {})
    table = pq.read_table(io.BytesIO(data["results.parquet"])).to_pylist()
    assert table[0]["algorithm.J"] == str(2**80) and table[0]["algorithm.grid"] == '[1, "a"]'
