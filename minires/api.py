"""The public names of `minires`, in one place."""

from minires import ops
from minires.backend import backend
from minires.gradcheck import check_pair, gradcheck
from minires.ops import *  # noqa: F403
from minires.replace import use
from minires.tensor import Tensor, debug, grad, no_grad

__all__ = ["Tensor", "backend", "check_pair", "debug", "grad", "gradcheck", "no_grad", "ops", "use"]
__all__ += ops.__all__
