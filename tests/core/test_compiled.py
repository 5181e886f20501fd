"""What the compiler made of the core: one specialisation, no allocation, vector code.

A guard that is not a timed test: each of these would cost a factor, and none shows in a number.
"""

import inspect
import platform
import re

import numpy as np
import pytest

from omkl import algorithms, federated
from omkl.checks import federations as federated_checks
from omkl.checks import learners
from omkl.core import compiler, trigonometry
from omkl.core import protocol as engine
from omkl.core.representations import random_features, sincos_features
from omkl.federated import client_features, simulation
from tests.learners import one_of_each_representation

pytestmark = pytest.mark.skipif(not compiler.ENABLED, reason="NUMBA_DISABLE_JIT is set")


EVERY = [*algorithms.names(), *federated.names()]


def learner_of(name: str, **options):
    return learners.Case(name).learner(**options)


def fresh(name: str):
    """A learner or a federation, and its stream X, y."""
    if name in federated.names():
        return federated_checks.Case(name).learner(), *federated_checks.streams()
    return learner_of(name), *learners.stream()


# --- one specialisation --------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_of_each_representation())
def test_one_specialisation_serves_every_shape_block_and_layout(name):
    X, y = learners.stream()
    before = compiler.n_specialisations(engine.run_block)
    learner = learner_of(name)
    learner.partial_fit(X, y)
    learner.predict_one(X[0])
    learner.learn_one(X[0], y[0])
    once = compiler.n_specialisations(engine.run_block)
    assert once <= before + 1, "predicting and learning apart are the same machine code"
    learner = learner_of(name, seed=3, dictionary=learners.DICTIONARY[2:], d=2)
    learner.partial_fit(X[:1, :2], y[:1])
    learner.partial_fit(X[1:200:3, 1:], y[1:200:3])  # strided
    learner.partial_fit(np.asfortranarray(X[:90, :2], dtype=np.float32), y[:90] > 0.5)
    learner.predict(np.asfortranarray(X[:5, :2], dtype=np.float32))
    for label in (True, np.float32(0.5), 1):
        learner.predict_one(X[0, :2].tolist())
        learner.learn_one(X[0, :2].tolist(), label)
    assert compiler.n_specialisations(engine.run_block) == once


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "perfedavg"])
def test_one_specialisation_serves_every_federation(name):
    X, y = federated_checks.streams()
    case = federated_checks.Case(name)
    before = compiler.n_specialisations(simulation.run_rounds)
    case.learner().partial_fit(X, y)
    once = compiler.n_specialisations(simulation.run_rounds)
    assert once - before <= 1
    federation = case.learner(seed=3, dictionary=learners.DICTIONARY[2:], d=2, K=3)
    federation.partial_fit(X[:1, :3, :2], y[:1, :3])
    federation.partial_fit(X[1:90:3, ::2, 1:], y[1:90:3, ::2])  # strided
    federation.partial_fit(np.asfortranarray(X[:9, :3, :2], dtype=np.float32), y[:9, :3] > 0.5)
    assert compiler.n_specialisations(simulation.run_rounds) == once


# --- no allocation -------------------------------------------------------------------------------


@pytest.fixture
def allocations():
    """allocations(call): how often compiled code took memory in a call."""
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()

    def count(call) -> int:
        before = rtsys.get_allocation_stats()
        call()
        after = rtsys.get_allocation_stats()
        return after.alloc - before.alloc + after.mi_alloc - before.mi_alloc

    return count


def test_the_count_sees_an_allocation(allocations):
    import numba

    @numba.njit
    def grow(n):
        for k in range(n):
            np.zeros(k + 1)[k] = 1.0

    grow(1)
    assert allocations(lambda: grow(50)) - allocations(lambda: grow(1)) >= 49


@pytest.mark.parametrize("name", EVERY)
def test_a_round_allocates_nothing(name, allocations):
    """A block of forty rounds takes as much as one of a single round: handing over the arrays."""
    learner, X, y = fresh(name)
    learner.partial_fit(X[:1], y[:1])
    one = allocations(lambda: learner.partial_fit(X[1:2], y[1:2]))
    assert allocations(lambda: learner.partial_fit(X[2:42], y[2:42])) == one


# --- vector code ---------------------------------------------------------------------------------

# Arithmetic on several doubles at a time, by the processor's name in ``platform.machine``.
PACKED = {
    "x86_64": r"\bv?(?:mul|add|sub|fn?m(?:add|sub)\d{3})pd\s",
    "aarch64": r"\bf(?:mul|add|sub|mla|mls)\s+v\d+\.2d|\bf(?:mul|add|sub|mla|mls)\.2d\s",
}
PACKED |= {"AMD64": PACKED["x86_64"], "arm64": PACKED["aarch64"]}
# What must not be there: one number at a time through the mathematical library.
TRANSCENDENTAL = r"call[^\n]*@(?:llvm\.)?(?:sin|cos|tan|exp|exp2)(?:\.f64)?\("


@pytest.fixture(scope="module")
def packed():
    """packed(assembly): how many instructions work on several doubles."""
    pattern = PACKED.get(platform.machine())
    if pattern is None:
        pytest.skip(f"the vector instructions of {platform.machine()} are not known to this test")

    def count(assembly: str) -> int:
        return len(re.findall(pattern, assembly))

    def scale(x, y):
        for j in range(x.shape[0]):
            y[j] = 3.0 * x[j] + y[j]

    if not count(generated(scale, np.ones(8), np.ones(8))[1]):
        pytest.skip("this processor has no arithmetic on several doubles at a time")
    return count


def generated(function, *arguments) -> tuple[str, str]:
    """LLVM's code and the assembly of a function, compiled anew: none is kept on disk."""
    import numba

    python = getattr(function, "py_func", function)
    compiled = numba.njit(error_model="numpy", fastmath=compiler.FLAGS)(python)
    compiled(*arguments)
    (signature,) = compiled.signatures
    return compiled.inspect_llvm(signature), compiled.inspect_asm(signature)


def arguments_by_name() -> dict:
    """An argument for each name that the inner loops give theirs."""
    D, d = 50, 15
    kernels = learners.DICTIONARY
    model = random_features.random_features(kernels, d, D, np.random.default_rng(0))
    tile = client_features.client_tile(model)
    X = np.ones((4, d))
    return {
        "model": model, "omega": model.omega, "X": X, "x": X[0], "row": 0,
        "kernels": np.arange(len(kernels)), "n": 2, "scratch": tile, "f": np.zeros(len(kernels)),
        "waves": tile.waves, "angle": tile.angle, "z": 0, "sin": np.zeros(d), "cos": np.zeros(d),
        "i": 1, "m": 0, "step": 0.1, "shrink": 0.9,
    }  # fmt: skip


# The least number of packed instructions: the two polynomials have 15 terms together; a dot
# product is one multiply-add; an argument is one; a step shrinks, adds and takes the squares.
LEAST = {
    trigonometry.sincos: 15,
    sincos_features.output_at_row: 17,
    client_features.tile_outputs: 2,
    random_features.gradient_step: 3,
}


@pytest.mark.parametrize("function", LEAST, ids=lambda function: function.__name__)
def test_inner_loops_are_vector_code(function, packed):
    known = arguments_by_name()
    llvm, assembly = generated(
        function, *(known[p] for p in inspect.signature(function).parameters)
    )
    assert packed(assembly) >= LEAST[function]
    assert not re.findall(TRANSCENDENTAL, llvm)


@pytest.mark.slow(4)
@pytest.mark.parametrize("name", ["raker", "omkr", "em_kofl"])
def test_no_round_calls_the_mathematical_library_number_by_number(name, packed):
    learner, X, y = fresh(name)
    together = name in federated.names()
    kept = simulation.run_rounds if together else engine.run_block
    block = compiler.for_this_process(kept.py_func)
    setattr(learner, "loop" if together else "_run_block", block)
    learner.partial_fit(X[:4], y[:4])
    (signature,) = block.signatures
    assert packed(block.inspect_asm(signature)) > 0
    assert not re.findall(TRANSCENDENTAL, block.inspect_llvm(signature))


def test_the_guard_sees_scalar_code(packed):
    """A sine from the mathematical library, and a sum whose order is fixed, are found out."""
    import math

    def plain(x, y):
        total = 0.0
        for j in range(x.shape[0]):
            total += math.sin(x[j]) * y[j]
        return total

    llvm, assembly = generated(plain, np.ones(8), np.ones(8))
    assert re.findall(TRANSCENDENTAL, llvm)
    assert packed(assembly) == 0
