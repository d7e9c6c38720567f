"""Numba twins of the hot operations: plain Python loops that LLVM turns into vector code.

Nothing here is imported by `import minires`; numba is loaded at the first kernel that somebody asks for.

    jit.py, cache.py   how kernels are compiled, and where the machine code is kept
    exp.py             exp, sigmoid, tanh and the normal distribution, written so that they vectorise
    softmax.py, loss.py, norms.py, activations.py, embedding.py, optim.py    the twins that go row by row
    linear.py          linear layers and the FFN: products that finish each block of rows in the cache
    attention.py       many heads, no work above the diagonal, memory linear in T
    fits.py            when a twin can do a call; otherwise the NumPy function does
    ladder.py          a matrix product in seven steps; the last two are matmul.py, gemm.py and vector.py
    checks.py          what kernels ask of their arrays, as readable errors
    exp_error.py       how exact exp is, measured
    peak.py            what this machine could do at best: multiply-adds and bytes per second
    inspect.py         a learner's tools: counted traffic, wrong indices, races of parallel loops (with counting.py)
"""
