"""YAML files are found and merged as Hydra finds and merges them."""

from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from omkl.config.compose import Composer, resolved
from omkl.utils import conf
from tests.compositions import mapping as compose

FILES = {
    "newest": "defaults: [gf, _self_]\neta: 1.0\n",
    "first": "defaults: [_self_, gf]\neta: 1.0\n",
    "nested": "defaults: [gf]\neta: 1.0\nnest: {a: 1, b: {c: 2, e: [1, 2]}}\n",
    "chain": "defaults: [nested, newest]\nname: own\nnest: {b: {d: 3, e: [4]}}\n",
    "raker": "name: another\n",  # that of conf counts
    "base": "name: base\nM: 7\n",
    "sub/base": "name: never\n",
    "sub/beside": "defaults: [base]\nx: 1\n",  # names are those of the group, not of the folder
    "below": "defaults: [sub/base]\nname: below\n",
    "elsewhere": "defaults: [/kernels@_global_.other: rbf41]\nname: elsewhere\n",
}


@pytest.fixture
def besides(tmp_path: Path) -> list[Path]:
    for name, text in FILES.items():
        path = tmp_path / "algorithm" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [tmp_path]


@pytest.mark.parametrize("name", FILES)
def test_an_entry_is_what_hydra_composes(name: str, besides: list[Path]):
    composed = compose([f"algorithm={name}"], besides)["algorithm"]
    assert conf.entry("algorithm", name, besides) == composed


EXPERIMENT = """# @package _global_
D: 7
algorithm: {eta: "${regret.lam}"}
mine: {of: [1, "${seeds}"]}
"""


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["algorithm=gf", "algorithm.eta=0.5", "seeds=3"],
        ["+experiment=mine", "regret.lam=0.25", "mine.of=[2,${D}]"],
        ["dataset.kernel={family: laplacian}", "+dataset.new.key=[1,{a: b}]"],
        ['algorithm.eta="0.1/sqrt(t)"', "D=${seeds}", "outputs='a, b'"],
        ["+algorithm.eta=3"],
        ["stream.limt=3"],
        ["algorithm@other=gf"],
    ],
    ids=" ".join,
)
def test_values_set_in_a_copy_are_as_hydra_composes_them(overrides, tmp_path: Path):
    """Hydra refuses the same ones; and nothing stays of another job of the same choices."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(EXPERIMENT)
    composer = Composer([tmp_path])

    def outcome(compose):
        try:
            return compose(overrides)
        except (HydraException, OmegaConfBaseException):
            return "refused"

    def by_hydra_alone(overrides):
        return resolved(composer._by_hydra(overrides), overrides)

    composer.mapping(["algorithm=gf", "algorithm.eta=77", "++stream.limit=1"])
    assert outcome(composer.mapping) == outcome(by_hydra_alone) == outcome(composer.mapping)


def test_files_are_read_as_omegaconf_reads_them():
    for path in conf.folder().rglob("*.yaml"):
        expected = OmegaConf.to_container(OmegaConf.load(path))
        assert conf.read(path) == (expected if isinstance(expected, dict) else {}), path


def test_further_folders_add_names(besides: list[Path]):
    assert "raker" in conf.names("algorithm") and "newest" not in conf.names("algorithm")
    found = conf.names("algorithm", besides)
    assert set(FILES) < set(found) and found.count("raker") == 1
    assert found.index("sub/base") > found.index("sfg_r"), "those of sub-folders come last"
    assert conf.groups(besides).keys() == conf.groups().keys()


def test_an_own_file_chooses_its_learner_unless_another_is_typed(besides: list[Path]):
    assert compose(["dataset=file"])["algorithm"]["name"] == "auto"
    assert compose(["dataset=file", "algorithm=gf"])["algorithm"]["name"] == "gf"
    (besides[0] / "dataset").mkdir(exist_ok=True)
    mine = besides[0] / "dataset" / "mine.yaml"
    mine.write_text("defaults: [file, _self_]\nname: mine\n", encoding="utf-8")
    assert compose(["dataset=mine"], besides)["algorithm"]["name"] == "auto"


def test_what_cannot_be_read_is_told(tmp_path: Path):
    with pytest.raises(conf.MissingEntry, match=r"there is no algorithm/rakr.yaml in .*conf"):
        conf.entry("algorithm", "rakr")
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "bad.yaml").write_text("eta: [1.0\n")
    with pytest.raises(conf.UnreadableFile, match=r"cannot read .*bad\.yaml"):
        conf.entry("algorithm", "bad", [tmp_path])
    (tmp_path / "algorithm" / "lost.yaml").write_text("defaults: [nothing]\n")
    with pytest.raises(conf.MissingEntry, match=r"algorithm/nothing\.yaml"):
        conf.entry("algorithm", "lost", [tmp_path])


def test_a_dictionary_of_which_a_key_is_set_is_no_longer_the_named_one():
    part = "kernels.parts=[{family: gaussian, bandwidth: [0.1, 1]}]"
    assert compose([part])["kernels"]["name"] == "own"
    assert compose([part, "kernels.name=mine"])["kernels"]["name"] == "mine"
    assert compose(["kernels=rbf41"])["kernels"]["name"] == "rbf41"


def test_variables_of_the_environment_are_refused(tmp_path: Path):
    """What is resolved is kept in config.json, in the files of sweeps and in the MLflow view."""
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndataset: {title: '${oc.env:HOME}'}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    for typed in ("dataset.title='${oc.env:HOME}'", "+experiment=mine"):
        with pytest.raises(ValueError, match="a variable may be a secret"):
            compose([typed], [tmp_path])


@pytest.mark.parametrize("text", ["it's", "a\\", "\\'", "\\${x}", "\\\\${x}\\"])
def test_a_text_is_written_so_that_it_is_read_as_it_is(text: str):
    assert compose([f"dataset.title={conf.override_text(text)}"])["dataset"]["title"] == text
