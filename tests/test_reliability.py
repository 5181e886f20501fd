"""The scripts behind ``docs/reliability.md``: their command line, and where their tables go."""

from pathlib import Path

import pytest
import reliability
from reliability import Place, lost_in

ROOT = Path(__file__).parents[1]


def test_a_table_takes_its_own_place_alone(tmp_path, capsys):
    text = (ROOT / "docs" / reliability.PAGE).read_text()
    (tmp_path / reliability.PAGE).write_text(text)
    for name in ("chaos", "files", "endurance"):
        reliability.publish("sunny, then rain\n", name, tmp_path)
    found = (tmp_path / reliability.PAGE).read_text()
    assert found.count("sunny, then rain") == 3
    kept = [line for line in text.splitlines() if line.startswith(("#", "<!--"))]
    assert [line for line in found.splitlines() if line.startswith(("#", "<!--"))] == kept
    with pytest.raises(ValueError, match="no place for a table: <!-- weather: begin -->"):
        reliability.publish("sunny\n", "weather", tmp_path)
    assert (tmp_path / reliability.PAGE).read_text() == found


def test_what_a_disturbance_costs_is_seen(tmp_path, run_folder_maker):
    place = Place(tmp_path / "place", ())
    for key in ("a", "b"):
        run_folder_maker(place.outputs, key=key)
    truth = place.numbers()
    assert truth.total() == 2 and lost_in(place, truth, 0, "") == []
    (folder, other) = sorted((place.outputs / "runs").glob("*/*"))
    (folder.parent / ".new-half").mkdir()  # the next run there removes it
    (other / "result.json").unlink()
    assert lost_in(place, truth, 1, "Traceback\nno luck\n") == [
        "exit status 1: ['no luck']",
        "a traceback",
        "1 results missing or wrong",
        f"left behind: {other.name}",
    ]
