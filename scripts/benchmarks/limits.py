"""Measure the throughput of the machine, and compute the least time of a round.

Throughputs, each the best of many runs on one thread:

s     sine and cosine of one argument by the core's polynomial, on cached data
e     exponential and multiply-add, on cached data
p     multiply-add with operands in registers, in dependent chains; a matrix product takes about
      twice as long
c     multiply-add on cached data, y += a x: two reads and a write
r(B)  multiply-add that reads one operand, from the smallest cache that holds B bytes

Memory throughput is measured by a copy and by a = b + c x, on arrays larger than every cache.

The least time of a round depends on the kind of algorithm. It evaluates |S| kernels of D features
each, from d inputs:

all kernels    |S| D (s + d p + 4 c). The evaluated kernels are known beforehand, so the arguments
               of many rounds are one matrix product, which reads the frequencies once. A feature
               takes two multiply-adds for the output and two for the update of its coefficients.
               On intervals a kernel has a row of coefficients on every level: 4 c per level.
chosen kernels |S| D (s + d r + 4 c). The choice depends on the last round, so the arguments are a
               product of a matrix and a vector, in which every frequency is read for one
               multiply-add. The evaluated kernels and their coefficients take 8 D (d + 2) bytes
               each. The core precomputes the arguments of a kernel that was chosen in many
               consecutive rounds, so a learner that rarely changes its kernels can be faster than
               this least time.
recursive      W (s + d p) + S / 2 (r(B) + c + p) for W frequencies, with S the sum of F^2 over the
               matrices (F, F). A symmetric matrix has about F^2 / 2 numbers. Each is read for one
               multiply-add of the projection and two of the update, of which one is written back
               and one adds to a register. B is 4 S bytes.
exact kernels  for t support rows: N t e + d t c for each kind of distance. With k features computed
               from the support, t k r(8 t k) more; their construction does not count.
a client's     N D (s + d p + 2 c) for the output of all kernels, and 4 D c for each row that it
round          learns, sends and the server adds. A network of P parameters takes 9 P c: two
               forward passes, two backward passes, two steps and the sum of the server.

If the coefficients, 16 D bytes per kernel, exceed the last cache, every round reads and writes
them, which takes at least 32 |S| D bytes at the speed of a copy. The larger time counts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import times
from omkl.core.compiler import compiled, reassociating
from omkl.core.simd import LANES, aligned, fma, load, store
from omkl.core.trigonometry import sincos
from omkl.core.weights import exp_of_pack
from omkl.utils.threads import one_thread_each

ALL, CHOSEN, EXACT = "all kernels", "chosen kernels", "exact kernels"
RECURSIVE = "recursive"
FEDERATED = "a client's round"
USUAL_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}  # where the system does not tell
Limits = dict[str, Any]


@compiled
def _repeat_sincos(n, x, sin, cos):
    for _ in range(n):
        sincos(x, sin, cos)


@compiled
def _repeat_multiply_add(n, a, x, y):
    for _ in range(n):
        for j in range(x.shape[0]):
            y[j] += a * x[j]
        a = -a


@compiled
def _repeat_chains(n, x):
    """Run 12 chains of n multiply-adds of packs, enough for every unit of the processor."""
    a, b = load(x, 0), load(x, 8)
    c0, c1, c2, c3, c4, c5 = load(x, 1), load(x, 2), load(x, 3), load(x, 4), load(x, 5), load(x, 6)
    d0, d1, d2 = load(x, 7), load(x, 9), load(x, 10)
    d3, d4, d5 = load(x, 11), load(x, 12), load(x, 13)
    for _ in range(n):
        c0, c1, c2 = fma(c0, a, b), fma(c1, a, b), fma(c2, a, b)
        c3, c4, c5 = fma(c3, a, b), fma(c4, a, b), fma(c5, a, b)
        d0, d1, d2 = fma(d0, a, b), fma(d1, a, b), fma(d2, a, b)
        d3, d4, d5 = fma(d3, a, b), fma(d4, a, b), fma(d5, a, b)
    store(x, 24, c0 + c1 + c2 + c3 + c4 + c5 + d0 + d1 + d2 + d3 + d4 + d5)


@compiled
def _repeat_exponential(n, c, x, alpha, y):
    for _ in range(n):
        for j in range(0, x.shape[0], LANES):
            store(y, j, fma(load(alpha, j), exp_of_pack(load(x, j) * c), load(y, j)))
        c *= 1.0 - 1e-9


@reassociating
def _multiply_sum(a, x):
    """Return the sum of a x in four parts, so that no addition waits for the previous one."""
    q = x.shape[0] // 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(q):
        s0 += a * x[j]
        s1 += a * x[q + j]
        s2 += a * x[2 * q + j]
        s3 += a * x[3 * q + j]
    return s0 + s1 + s2 + s3


@reassociating
def _repeat_multiply_sum(n, a, x):
    total = 0.0
    for k in range(n):
        total += _multiply_sum(a + k, x)
    return total


@compiled
def _copy(x, y):
    for j in range(x.shape[0]):
        y[j] = x[j]


@compiled
def _triad(a, x, y, z):
    for j in range(x.shape[0]):
        z[j] = y[j] + a * x[j]


def caches() -> dict[int, int]:
    """Return the bytes of the data caches by level; usual sizes if they are unknown."""
    found = {}
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        kind, size = (entry / "type").read_text().strip(), (entry / "size").read_text().strip()
        if kind != "Instruction" and size.endswith("K"):
            found[int((entry / "level").read_text())] = int(size[:-1]) << 10
    return dict(sorted((found or USUAL_CACHES).items()))


def measure(seconds: float, largest: int = 1 << 28) -> Limits:
    """Return nanoseconds per operation, and gigabytes of memory per second.

    Each measurement takes ``seconds``. ``largest`` is the number of bytes of an array.
    """
    n, size = 200, 2048
    per = 1e9 / (n * size)

    def best(function: Callable[[], Any], seconds: float = seconds) -> float:
        return min(times(function, seconds))

    x, sin, cos, y = (aligned((size,)) for _ in range(4))  # as learners have theirs
    x[:] = np.random.default_rng(0).normal(scale=8.0, size=size)
    pair = best(lambda: _repeat_sincos(n, x, sin, cos))
    cached = best(lambda: _repeat_multiply_add(n, 1e-3, x, y))
    np.abs(x, out=x)
    exponential = best(lambda: _repeat_exponential(n, -0.5, x, sin, y))
    A, C = np.random.default_rng(0).normal(size=(256, 256)), np.empty((256, 256))
    with one_thread_each():
        product = best(lambda: np.matmul(A, A, out=C))
    chained, few = 10_000, np.linspace(0.1, 0.9, 32)
    chains = best(lambda: _repeat_chains(chained, few))
    levels = caches()
    reads = []
    for level, held in levels.items():
        part = np.ones(held // 2 // 8)
        repeat = max(1, (1 << 20) // len(part))
        took = best(lambda: _repeat_multiply_sum(repeat, 1e-3, part), seconds / 2)  # noqa: B023
        reads.append(
            {"from": f"level {level}", "bytes": held, "ns": 1e9 * took / (repeat * len(part))}
        )
    size = min(largest, max(1 << 26, 4 * max(levels.values()))) // 8
    big, other, third = np.ones(size), np.ones(size), np.ones(size)
    took = best(lambda: _multiply_sum(1e-3, big), seconds / 2)
    reads.append({"from": "memory", "bytes": None, "ns": 1e9 * took / size})
    return {
        "sincos_ns": pair * per,
        "exp_add_ns": exponential * per,
        "peak_add_ns": min(1e9 * chains / (12 * LANES * chained), 1e9 * product / 256**3),
        "product_add_ns": 1e9 * product / 256**3,
        "cached_add_ns": cached * per,
        "read_add": reads,
        "copy_gb_s": 16e-9 * size / best(lambda: _copy(big, other), seconds / 2),
        "triad_gb_s": 24e-9 * size / best(lambda: _triad(3.0, big, other, third), seconds / 2),
        "last_cache": max(levels.values()),
    }


def better(a: Limits, b: Limits) -> Limits:
    """Return the better of two measurements of each limit."""
    found = dict(a)
    for key in a:
        if key.endswith("_ns"):
            found[key] = min(a[key], b[key])
        elif key.endswith("_gb_s"):
            found[key] = max(a[key], b[key])
    found["read_add"] = [
        x | {"ns": min(x["ns"], y["ns"])} for x, y in zip(a["read_add"], b["read_add"], strict=True)
    ]
    return found


def read_ns(limits: Limits, n_bytes: float) -> float:
    """Return r(B), the time of a multiply-add that reads one of ``n_bytes`` bytes of operands."""
    for level in limits["read_add"]:
        if level["bytes"] is None or n_bytes <= level["bytes"]:
            return float(level["ns"])
    raise AssertionError("the last level is memory")


def least(work: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the least microseconds of a round that does this work, and what limits them.

    Keys of ``work`` for random features: ``evaluated`` of ``N`` kernels (a mean), ``distinct``
    evaluated kernels in all, ``D`` features of ``d`` inputs, and ``rows`` of coefficients per
    kernel. For exact kernels: ``evaluated`` kernels of ``kinds`` kinds of distance, ``support``
    rows (a mean) of ``d`` inputs, and ``projected`` numbers of the matrix that makes features (a
    mean). For recursive learners: ``squares``, the sum of F^2 over the matrices, and ``waves``
    frequencies. For a client of a federation: ``learned`` of the ``N`` evaluated rows, or the
    ``parameters`` of a network.
    """
    if "parameters" in work:
        least_us = 9.0 * work["parameters"] * limits["cached_add_ns"] / 1e3
        return {"kind": FEDERATED, "least_us": least_us, "set_by": "arithmetic"}
    if "learned" in work:
        N, D, d = work["N"], work["D"], work["d"]
        evaluate = N * D * (limits["sincos_ns"] + d * limits["peak_add_ns"])
        adds = (2.0 * N * D + 4.0 * work["learned"] * D) * limits["cached_add_ns"]
        return {"kind": FEDERATED, "least_us": (evaluate + adds) / 1e3, "set_by": "arithmetic"}
    if "squares" in work:
        return _least_of_matrices(work, limits)
    n, d = work["evaluated"], work["d"]
    if "support" in work:
        row_ns = n * limits["exp_add_ns"] + work["kinds"] * d * limits["cached_add_ns"]
        projected = work.get("projected", 0.0)
        least_ns = work["support"] * row_ns + projected * read_ns(limits, 8.0 * projected)
        return {"kind": EXACT, "least_us": least_ns / 1e3, "set_by": "arithmetic"}
    D, distinct = work["D"], work["distinct"]
    everything = n == work["N"]
    add = limits["peak_add_ns"] if everything else read_ns(limits, 8.0 * distinct * D * (d + 2))
    adds = 4.0 * work.get("rows", 1) * limits["cached_add_ns"]
    compute = n * D * (limits["sincos_ns"] + d * add + adds) / 1e3
    traffic = 0.0
    if 16.0 * distinct * D > limits["last_cache"]:
        traffic = 32.0 * n * D / limits["copy_gb_s"] / 1e3
    return {
        "kind": ALL if everything else CHOSEN,
        "least_us": max(compute, traffic),
        "set_by": "memory" if traffic > compute else "arithmetic",
    }


def _least_of_matrices(work: dict[str, Any], limits: Limits) -> dict[str, Any]:
    waves, squares, d = work["waves"], work["squares"], work["d"]
    size = 4.0 * squares
    number = read_ns(limits, size) + limits["cached_add_ns"] + limits["peak_add_ns"]
    features = waves * (limits["sincos_ns"] + d * limits["peak_add_ns"])
    compute = (features + 0.5 * squares * number) / 1e3
    traffic = 2.0 * size / limits["copy_gb_s"] / 1e3 if size > limits["last_cache"] else 0.0
    set_by = "memory" if traffic > compute else "arithmetic"
    return {"kind": RECURSIVE, "least_us": max(compute, traffic), "set_by": set_by}
