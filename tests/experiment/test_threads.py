"""Threads of a run are its own: a library beside it takes one."""

from threadpoolctl import threadpool_info, threadpool_limits

from omkl.utils.threads import thread_pool


def test_linear_algebra_takes_one_thread_in_a_pool():
    with threadpool_limits(2, user_api="blas"), thread_pool(2):
        inside = [library for library in threadpool_info() if library["user_api"] == "blas"]
        assert inside and all(library["num_threads"] == 1 for library in inside)
