"""Hyper-parameters: schedules, and every refusal with its reason."""

import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl import algorithms
from omkl.checks import learners
from omkl.core.hyperparameters import Schedule, build, parse_schedule, rate

SIZES = {"N": 76, "D": 50}


@pytest.mark.parametrize(
    ("text", "values"),  # at rounds 1, 4 and 100, of a stream of 400
    [
        (0.5, [0.5, 0.5, 0.5]),
        (2, [2.0, 2.0, 2.0]),
        ("0.5", [0.5, 0.5, 0.5]),
        (" 1e-1 / sqrt( t ) ", [0.1, 0.05, 0.01]),
        ("2/t", [2.0, 0.5, 0.02]),
        ("1/t^0.5", [1.0, 0.5, 0.1]),
        ("3/t**2", [3.0, 3 / 16, 3e-4]),
        ("1/sqrt(T)", [0.05, 0.05, 0.05]),
        ("8/T", [0.02, 0.02, 0.02]),
        ("1/T^0.25", [400**-0.25] * 3),
    ],
)
def test_schedules(text, values):
    schedule = parse_schedule(text, 400)
    assert [rate(schedule, t) for t in (1, 4, 100)] == pytest.approx(values, rel=1e-14)


@given(st.floats(1e-6, 1e6), st.floats(0.0, 3.0), st.integers(1, 10**9))
def test_schedules_survive_being_written(scale, power, t):
    """What a schedule says when written as text is the schedule again."""
    assert parse_schedule(f"{scale!r}/t^{power:.17f}", None).scale == scale
    assert rate(parse_schedule(f"{scale!r}/t^{power:.17f}", None), t) == pytest.approx(
        scale * t**-power, rel=1e-12
    )
    assert parse_schedule(scale, None) == parse_schedule(repr(scale), None) == Schedule(scale, 0.0)
    assert parse_schedule(f"{scale!r}/T^{power:.17f}", t).scale == pytest.approx(
        scale * t**-power, rel=1e-12
    )


@pytest.mark.parametrize("text", ["0.1/sqrt(x)", "t", "1/t^", "0.1/log(t)", "", "1/t^-0.5", True])
def test_no_schedule(text):
    """Growing rates are none either: an exploration rate would leave (0, 1)."""
    with pytest.raises(ValueError, match="is no schedule; write a number"):
        parse_schedule(text, 100)


def test_a_schedule_in_T_needs_the_length_of_the_stream():
    assert parse_schedule("1/sqrt(t)", None) == Schedule(1.0, -0.5)
    with pytest.raises(ValueError, match=r"'1/sqrt\(T\)' needs the number of rows T.*limit"):
        parse_schedule("1/sqrt(T)", None)


def built(name, horizon=100, sizes=SIZES, **changes):
    settings = learners.default_settings(name) | changes
    settings = {k: v for k, v in settings.items() if v is not None}
    return build(algorithms.load(name).Params, settings, horizon, sizes)


def test_a_word_becomes_its_place_among_the_choices():
    assert built("sfg", reading="nearest").reading == 1
    with pytest.raises(ValueError, match=r"algorithm.reading='nearst' is none of farthest, near"):
        built("sfg", reading="nearst")
    with pytest.raises(ValueError, match=r"'nearst' .* Did you mean nearest\?"):
        built("sfg", reading="nearst")


def test_the_published_settings():
    assert built("gf") == (Schedule(0.1, -0.5), Schedule(0.1, -0.5), 1e-3, 10, 2, 300)
    assert built("sfg_r") == (Schedule(0.1, -0.5),) * 2 + (1e-3, 10, 300, 10, False, 0)
    assert built("raker", lam=0).lam == 0.0
    assert built("sfg", xi="50/T", horizon=100).xi == Schedule(
        0.5, 0.0
    )  # in (0, 1) where it counts


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "raker",
            {"etta": 1},
            "no algorithm.etta. Did you mean algorithm.eta? There are: eta, lam.",
        ),
        ("raker", {"zzzz": 1}, "there is no algorithm.zzzz. There are: eta, lam."),
        ("raker", {"eta": None}, "algorithm.eta is missing"),
        ("raker", {"eta": "fast"}, "algorithm.eta: 'fast' is no schedule"),
        ("raker", {"eta": 0}, "algorithm.eta=0: a step size or rate is positive and finite"),
        ("raker", {"eta": "-1/t"}, "algorithm.eta=-1/t: a step size or rate is positive"),
        ("raker", {"eta": float("nan")}, "algorithm.eta=nan: a step size or rate is positive"),
        ("raker", {"lam": -1e-3}, "algorithm.lam=-0.001 lies outside [0, inf)"),
        ("raker", {"lam": "small"}, "algorithm.lam='small' is not a number"),
        ("raker", {"lam": True}, "algorithm.lam=True is not a number"),
        ("raker", {"lam": float("inf")}, "algorithm.lam=inf is not finite"),
        ("gf", {"M": 77}, "algorithm.M=77 lies outside [1, N=76]"),
        ("gf", {"M": 0}, "algorithm.M=0 lies outside [1, N=76]"),
        ("gf", {"M": 10.0}, "algorithm.M=10.0 is not a whole number"),
        ("gf", {"M": "10"}, "algorithm.M='10' is not a whole number"),
        ("gf", {"M": True}, "algorithm.M=True is not a whole number"),
        ("gf", {"J": 0}, "algorithm.J=0 lies outside [1, 10,000]"),
        ("gf", {"freeze": 0}, "algorithm.freeze=0 lies outside [1, inf)"),
        ("gf", {"eta_e": 1.0}, "algorithm.eta_e=1 lies outside (0, 1)"),
        ("sfg", {"xi": "1/sqrt(t)"}, "algorithm.xi=1/sqrt(t) lies outside (0, 1)"),
        ("sfg", {"xi": "100/T"}, "algorithm.xi=100/T lies outside (0, 1)"),
        ("sfg", {"explore": -1}, "algorithm.explore=-1 lies outside [0, inf)"),
        ("sfg_r", {"rank": 0}, "algorithm.rank=0 lies outside [1, N=76]"),
        ("sfg_r", {"rank": 77}, "algorithm.rank=77 lies outside [1, N=76]"),
        ("sfg_r", {"only_undominated": 1}, "algorithm.only_undominated=1 is not true or false"),
    ],
)
def test_every_refusal_names_key_value_and_what_it_may_be(name, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        built(name, **changes)


class OddParams(NamedTuple):
    colour: str
    depth: int = 3


def test_params_of_an_own_algorithm():
    """Fields with a default may be left out; an annotation that cannot be checked is refused."""
    with pytest.raises(TypeError, match=r"own\.colour: a field cannot be annotated"):
        build(OddParams, {"colour": "red"}, None, {}, where="own")
    with pytest.raises(ValueError, match=r"own\.colour is missing"):
        build(OddParams, {"depth": 1}, None, {}, where="own")
