"""What must not be silently wrong: shared leaves in threads, complex gradients, a replacement that writes into dy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minires as mr
from minires.messages import DtypeError, GraphError


def test_no_thread_loses_its_gradient_of_a_shared_leaf():
    x = mr.Tensor(np.zeros(3), requires_grad=True)

    def add_up(_):
        for _ in range(200):
            (x * 1.0).sum().backward()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_up, range(4)))
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad, 800)


def test_a_complex_upstream_gradient_is_refused():
    x = mr.Tensor(np.ones(3), requires_grad=True)
    with pytest.raises(DtypeError, match="must be real"):
        (x * 2.0).backward(np.ones(3) * 1j)


def test_a_complex_gradient_of_a_replacement_is_refused():
    x = mr.Tensor(np.ones(3), requires_grad=True)
    with mr.use(exp_backward=lambda dy, y: dy * y * 1j), pytest.raises(DtypeError, match="'exp' must be real"):
        mr.exp(x).backward(np.ones(3))


def test_text_as_upstream_gradient_is_refused():
    x = mr.Tensor(np.ones(3), requires_grad=True)
    with pytest.raises(DtypeError, match="dtype <U1"):
        (x * 2.0).backward("a")


def test_a_replacement_may_not_write_into_dy():
    def doubled(dy, y):
        dy *= 2
        return dy * y

    x, upstream = mr.Tensor(np.ones(3), requires_grad=True), np.ones(3)
    with mr.use(exp_backward=doubled), pytest.raises(GraphError, match="doubled, which writes into it"):
        mr.exp(x).backward(upstream)
    np.testing.assert_array_equal(upstream, 1)


def test_a_numpy_function_is_answered_with_ours_only_if_we_have_it():
    x = mr.Tensor(np.ones(3))
    with pytest.raises(DtypeError, match=r"Use minires\.matmul"):
        np.dot(x, x)
    with pytest.raises(DtypeError, match="Write it with minires functions"):
        np.fft.fft(x)
