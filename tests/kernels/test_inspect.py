"""Watching arrays: traffic, indices outside, races; and the machine's peak."""

import numba
import numpy as np
import pytest
from numba import njit, prange

from minires.kernels import peak
from minires.kernels.inspect import KernelProblem, check, first_run, trace
from minires.messages import ValueProblem


@njit
def add_row(to, row, factor):
    for j in range(to.size):
        to[j] += factor * row[j]


@njit
def scale(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = 2 * x[i, j]


@njit(parallel=True)
def one_sum(x, out):
    for i in prange(x.size):
        out[0] += x[i]


@njit(parallel=True)
def rows_of_sums(x, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i] += x[i, j]


@njit(parallel=True)
def neighbour(x):
    for i in numba.prange(1, x.size):
        x[i] = x[i - 1] + 1


@njit
def one_too_far(x, out):
    for i in range(x.size):
        out[i] = x[i + 1]


def test_traffic_is_counted_per_element():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    report = trace(scale, x, np.zeros_like(x))
    read, written = report.traffic
    assert (read.reads, read.writes, written.reads, written.writes) == (12, 0, 0, 12)
    assert (report.bytes_read, report.bytes_written, report.bytes_per_element) == (48, 48, 8)
    np.testing.assert_array_equal(report.arrays["out"], 2 * x)
    assert "x float32 (3, 4): read 1 times and written 0 times per element" in str(report)
    assert "races: none" in str(report)


def test_arguments_are_left_alone():
    x, out = np.ones((2, 2)), np.zeros((2, 2))
    trace(scale, x, out)
    assert not out.any()


def test_two_iterations_that_write_one_cell():
    report = trace(one_sum, np.ones(4), np.zeros(1))
    (race,) = report.races
    assert (race.array, race.index, race.first, race.second, race.kind) == ("out", (0,), 0, 1, "both write")
    with pytest.raises(KernelProblem, match=r"out\[0\]: iterations 0 and 1 of the parallel loop \(both write\)"):
        check(one_sum, np.ones(4), np.zeros(1))


def test_one_iteration_reads_what_another_writes():
    (first, *_) = trace(neighbour, np.zeros(4)).races
    assert (first.index, {first.first, first.second}) == ((1,), {1, 2})
    assert first.kind == "one reads what the other writes"


def test_a_later_write_of_what_was_read_is_a_race_too():
    @njit(parallel=True)
    def backwards(x):
        for i in prange(x.size - 1):
            x[i] = x[i + 1]

    assert {race.index for race in trace(backwards, np.zeros(4)).races} == {(1,), (2,)}


def test_own_rows_are_no_race():
    assert check(rows_of_sums, np.ones((3, 4)), np.zeros(3)).races == []


def test_loops_one_after_the_other_do_not_race():
    @njit(parallel=True)
    def twice(x):
        for i in prange(x.size):
            x[i] += 1
        for i in prange(x.size):
            x[x.size - 1 - i] += 1

    assert trace(twice, np.zeros(5)).races == []


def test_arrays_made_inside_a_kernel_are_watched():
    @njit(parallel=True)
    def shared_scratch(x):
        scratch = np.zeros(2)
        for i in prange(x.size):
            scratch[1] = x[i]
            x[i] = scratch[1]

    (race,) = trace(shared_scratch, np.ones(3)).races
    assert (race.array, race.index) == ("zeros#1", (1,))


def test_scratch_of_each_iteration_is_private():
    @njit(parallel=True)
    def own_scratch(x):
        for i in prange(x.size):
            scratch = np.zeros(2)
            scratch[1] = x[i]
            x[i] = scratch[1]

    assert trace(own_scratch, np.ones(3)).races == []


def test_index_outside_is_named():
    report = trace(one_too_far, np.ones(4), np.zeros(4))
    (wrong,) = report.outside
    assert (wrong.array, wrong.index, wrong.shape) == ("x", (4,), (4,))
    with pytest.raises(KernelProblem, match=r"index \(4,\) is outside x of shape \(4,\)"):
        check(one_too_far, np.ones(4), np.zeros(4))


def test_negative_index_is_noted_but_allowed():
    @njit
    def last(x):
        return x[-1]

    report = check(last, np.arange(3.0))
    assert report.result == 2
    assert "negative" in str(report)


def test_slices_arithmetic_and_called_kernels_are_watched():
    @njit
    def rows(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i] * 2 + 1
            add_row(out[i], x[i], x[i, 0])

    x = np.arange(6.0).reshape(2, 3)
    report = trace(rows, x, np.zeros((2, 3)))
    np.testing.assert_array_equal(report.arrays["out"], x * 2 + 1 + x[:, :1] * x)
    read, written = report.traffic
    assert (read.reads, written.reads, written.writes) == (6 + 2 + 6, 6, 12)


def test_in_place_arithmetic_reads_and_writes():
    @njit
    def add(x, y):
        x += y

    changed, other = trace(add, np.ones(4), np.ones(4)).traffic
    assert (changed.reads, changed.writes, other.reads) == (4, 4, 4)


def test_first_run_compares_nothing_but_runs_with_bounds_checks():
    x = np.ones((2, 3))
    _, (_, out) = first_run(scale, x, np.zeros((2, 3)))
    np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(KernelProblem):
        first_run(one_too_far, np.ones(3), np.zeros(3))


def test_large_arrays_are_refused():
    with pytest.raises(ValueProblem, match="at most 100000 elements; got x with 1000000"):
        trace(scale, np.ones((1000, 1000)), np.ones((1000, 1000)))


def test_peak_has_every_number_and_a_roof():
    """Numbers are not compared with each other: on a busy machine any of them may be small."""
    found = peak.measure_peak(0.2, sizes=(2**15, 2**21))
    assert min(found.gflops.values()) > 0
    assert (found.copy > 0).all()
    assert (found.triad > 0).all()
    assert found.bandwidth(2**15) == max(found.copy[0], found.triad[0])
    assert found.roof(2e12, 2**15) == pytest.approx(2e3 / found.gflops["float32"])
    assert found.roof(1, 2**21) == pytest.approx(2**21 / 1e9 / found.bandwidth(2**21))
    assert "GFLOP/s in float32" in str(found)


def test_what_the_peak_counts_is_computed():
    burn, flops = peak.make_burn(numba.float64)
    a, b, c = np.full(64, 2.0), np.full(64, 3.0), np.zeros(64)
    burn(5, a, b, c)
    unit = peak.host_unit()
    assert flops == 2 * unit.rows * unit.vectors * unit.bytes // 8
    np.testing.assert_array_equal(c[: unit.vectors * unit.bytes // 8], 5 * 2.0 * 3.0)


def test_streams_move_what_they_claim():
    x, y, z = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
    peak.copy(x, z, 1)
    np.testing.assert_array_equal(z, np.arange(8))
    peak.triad(x, y, z, 1)
    np.testing.assert_array_equal(z, np.arange(8) + np.float32(0.5))
    np.testing.assert_array_equal(x, y + np.float32(0.5) * z)


def test_two_names_of_one_memory_are_refused():
    """Each would be copied by itself, and a race between them would go unseen."""

    def shift(a, out):
        for i in prange(1, a.size):
            out[i] = a[i - 1]

    x = np.arange(5.0)
    for a, out in ((x, x), (x[:-1], x[1:])):
        with pytest.raises(ValueProblem, match="must not share memory"):
            check(shift, a, out)
    assert not check(shift, x[:2], x[2:4]).races
