"""The scripts behind ``docs/reliability.md``: they notice what a disturbance costs."""

from reliability import Place, lost_in


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
