"""Time a row of Raker in omkl, NumPy, Numba, C and JAX, in one run on one thread.

    cd scripts && python -m benchmarks.languages

The script checks that all five compute the same predictions. Programs are called in turns, and the
least processor time counts. C needs gcc with libmvec, and JAX its package; a program whose
compiler or package is missing is omitted.
"""

import ctypes
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks import setting
from omkl.utils.threads import one_thread_each

ROWS, TURNS = 1000, 7
LAM, ETA = 1e-3, 0.1  # of the step eta / sqrt(t), as in conf/algorithm/raker.yaml
Program = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

C = r"""
#include <math.h>
void run(int n, int N, int D, int d, const double *omega, const double *X, const double *y,
         double *theta, double *w, double *s, double *c, double *f, double *y_hat) {
  double scale = 1 / sqrt(D);
  for (int t = 0; t < n; t++) {
    double eta = ETA / sqrt(t + 1.0), sum = 0, total = 0;
    for (int i = 0; i < N; i++) {
      double out = 0, *a = theta + 2 * i * D, *b = a + D, angle[D];
      for (int j = 0; j < D; j++) angle[j] = 0;
      for (int k = 0; k < d; k++)
        for (int j = 0; j < D; j++) angle[j] += omega[(i * d + k) * D + j] * X[t * d + k];
      /* Two loops: gcc makes one call of sincos of both in one loop, which libmvec has not. */
      for (int j = 0; j < D; j++) s[i * D + j] = scale * sin(angle[j]);
      for (int j = 0; j < D; j++) c[i * D + j] = scale * cos(angle[j]);
      for (int j = 0; j < D; j++) out += a[j] * s[i * D + j] + b[j] * c[i * D + j];
      f[i] = out; sum += w[i] * out; total += w[i];
    }
    y_hat[t] = sum / total;
    for (int i = 0; i < N; i++) {
      double error = f[i] - y[t], norm = 0, *a = theta + 2 * i * D;
      for (int j = 0; j < 2 * D; j++) norm += a[j] * a[j];
      w[i] *= exp(-eta * (error * error + LAM * norm));
      double shrink = 1 - 2 * eta * LAM, step = 2 * eta * error;
      for (int j = 0; j < D; j++) {
        a[j] = shrink * a[j] - step * s[i * D + j];
        a[D + j] = shrink * a[D + j] - step * c[i * D + j];
      }
    }
  }
}
"""


def with_numpy(omega: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predict and learn rows X (n, d) with targets y (n,) and frequencies omega (N, d, D)."""
    N, d, D = omega.shape
    flat = np.ascontiguousarray(omega.transpose(1, 0, 2).reshape(d, N * D))
    theta, w, y_hat = np.zeros((N, 2 * D)), np.ones(N), np.empty(len(y))
    for t in range(len(y)):
        eta, angle = ETA / math.sqrt(t + 1.0), (X[t] @ flat).reshape(N, D)
        z = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / math.sqrt(D)
        f = np.einsum("ij,ij->i", theta, z)
        y_hat[t] = w @ f / w.sum()
        error = f - y[t]
        w *= np.exp(-eta * (error**2 + LAM * np.einsum("ij,ij->i", theta, theta)))
        theta = (1 - 2 * eta * LAM) * theta - (2 * eta * error)[:, None] * z
    return y_hat


@numba.njit(fastmath=True)
def with_numba(omega: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    N, d, D = omega.shape
    theta, z, angle = np.zeros((N, 2 * D)), np.empty((N, 2 * D)), np.empty(D)
    w, f, y_hat, scale = np.ones(N), np.empty(N), np.empty(len(y)), 1.0 / math.sqrt(D)
    for t in range(len(y)):
        eta, total = ETA / math.sqrt(t + 1.0), 0.0
        for i in range(N):
            angle[:] = 0.0
            for k in range(d):
                for j in range(D):
                    angle[j] += omega[i, k, j] * X[t, k]
            out = 0.0
            for j in range(D):
                z[i, j], z[i, D + j] = scale * math.sin(angle[j]), scale * math.cos(angle[j])
                out += theta[i, j] * z[i, j] + theta[i, D + j] * z[i, D + j]
            f[i] = out
            total += w[i] * out
        y_hat[t] = total / w.sum()
        for i in range(N):
            error, norm = f[i] - y[t], 0.0
            for j in range(2 * D):
                norm += theta[i, j] * theta[i, j]
            w[i] *= math.exp(-eta * (error * error + LAM * norm))
            for j in range(2 * D):
                theta[i, j] = (1 - 2 * eta * LAM) * theta[i, j] - 2 * eta * error * z[i, j]
    return y_hat


def with_c(folder: Path) -> Program:
    """Compile the C code by gcc -O3 with libmvec, and return its function."""
    source, library = folder / "raker.c", folder / "raker.so"
    source.write_text(C)
    flags = ["-O3", "-march=native", "-ffast-math", f"-DETA={ETA}", f"-DLAM={LAM}"]
    files = [str(source), "-o", str(library)]
    command = ["gcc", *flags, "-shared", "-fPIC", *files, "-lmvec", "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))

    def call(omega: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        N, d, D = omega.shape
        y_hat, w = np.empty(len(y)), np.ones(N)
        scratch = [np.zeros((N, 2 * D)), w, np.empty((N, D)), np.empty((N, D)), np.empty(N)]
        arrays = [a.ctypes.data_as(ctypes.c_void_p) for a in (omega, X, y, *scratch, y_hat)]
        loaded.run(len(y), N, D, d, *arrays)
        return y_hat

    return call


def with_jax() -> Program:
    """Return the function that JAX compiles: a scan over the rows."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    @jax.jit
    def scanned(flat: Any, X: Any, y: Any, theta: Any) -> Any:
        N, D = theta.shape[0], theta.shape[1] // 2

        def step(state: Any, row: Any) -> Any:
            theta, w = state
            x, target, eta = row
            angle = (x @ flat).reshape(N, D)
            z = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=1) / math.sqrt(D)
            f = (theta * z).sum(axis=1)
            error = f - target
            new_w = w * jnp.exp(-eta * (error**2 + LAM * (theta**2).sum(axis=1)))
            new = (1 - 2 * eta * LAM) * theta - (2 * eta * error)[:, None] * z
            return (new, new_w), w @ f / w.sum()

        eta = ETA / jnp.sqrt(jnp.arange(1.0, len(y) + 1.0))
        return jax.lax.scan(step, (theta, jnp.ones(N)), (X, y, eta))[1]

    def call(omega: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        N, d, D = omega.shape
        flat = omega.transpose(1, 0, 2).reshape(d, N * D)
        return np.asarray(scanned(flat, X, y, np.zeros((N, 2 * D))))

    return call


def main() -> int:
    rows = setting.rows(ROWS)
    X, y = np.ascontiguousarray(rows.X), np.ascontiguousarray(rows.y)
    case = setting.case("raker", setting.kernels(), X.shape[1], setting.D, ROWS)
    omega = np.ascontiguousarray(case.features().omega)
    if hasattr(os, "sched_setaffinity"):  # JAX would take several threads
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder, one_thread_each():
        fresh = [case.learner() for _ in range(TURNS + 1)]
        programs: dict[str, Program] = {
            "omkl": lambda omega, X, y: fresh.pop().partial_fit(X, y).y_hat,
            "NumPy": with_numpy,
            "Numba, fastmath": with_numba,
        }
        if shutil.which("gcc"):
            programs["C, gcc -O3 with libmvec"] = with_c(Path(folder))
        if importlib.util.find_spec("jax"):
            programs["JAX, jit and scan"] = with_jax()
        wanted, least = programs["omkl"](omega, X, y), dict.fromkeys(programs, math.inf)
        for name, program in list(programs.items())[1:]:
            np.testing.assert_allclose(program(omega, X, y), wanted, rtol=1e-6, err_msg=name)
        for _ in range(TURNS):
            for name, program in programs.items():
                start = time.process_time()
                program(omega, X, y)
                least[name] = min(least[name], time.process_time() - start)
    for name, took in least.items():
        print(
            f"{name:26}{1e6 * took / len(y):8.1f} us per row{took / least['omkl']:8.1f} times omkl"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
