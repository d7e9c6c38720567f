"""minires: residual connections from scratch, in NumPy, with every backward pass written by hand."""

__version__ = "0.1.0"

from minires import ops
from minires.ops import *  # noqa: F403
from minires.replace import use
from minires.tensor import Tensor, debug, grad, no_grad

__all__ = ["Tensor", "debug", "grad", "no_grad", "ops", "use", *ops.__all__]
