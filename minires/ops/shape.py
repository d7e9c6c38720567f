"""Operations that move numbers without changing them. Each backward moves them back."""

from __future__ import annotations

import numpy as np

from minires.messages import ShapeError
from minires.ops.broadcast import unbroadcast
from minires.tensor import Tensor, differentiable


def reshape_forward(x, shape):
    """The same numbers in row-major order under another shape (one entry may be -1). saved = x's shape."""
    return x.reshape(shape), x.shape


def reshape_backward(dy, shape):
    """dx = dy under the old shape."""
    return dy.reshape(shape)


def transpose_forward(x, axes=None):
    """Axis i of the result is axis axes[i] of x; None reverses all axes. saved = axes."""
    return x.transpose(axes), axes


def transpose_backward(dy, axes):
    """The inverse permutation."""
    return dy.transpose(None if axes is None else tuple(np.argsort([a % dy.ndim for a in axes])))


def swapaxes_forward(x, axis1, axis2):
    """x with two axes exchanged. saved = the two axes."""
    return np.swapaxes(x, axis1, axis2), (axis1, axis2)


def swapaxes_backward(dy, saved):
    """The same exchange again."""
    return np.swapaxes(dy, *saved)


def broadcast_to_forward(x, shape):
    """x repeated along new or length-1 axes until it has `shape` (a copy). saved = x's shape."""
    return np.broadcast_to(x, shape).copy(), np.shape(x)


def broadcast_to_backward(dy, shape):
    """What was repeated is summed."""
    return unbroadcast(dy, shape)


def getitem_forward(x, index):
    """y = x[index] with NumPy's rules: numbers, slices, None, …, boolean masks and integer arrays.

    saved = (x's shape, index). Raises ShapeError for an index that is out of range.
    """
    return x[index], (x.shape, index)


def getitem_backward(dy, saved):
    """dx is 0 except at the chosen places; a place chosen twice (integer arrays) receives both gradients."""
    shape, index = saved
    dx = np.zeros(shape, dy.dtype)
    if _is_basic(index):
        dx[index] = dy
    else:
        np.add.at(dx, index, dy)
    return dx


def _is_basic(index):
    parts = index if isinstance(index, tuple) else (index,)
    return all(isinstance(p, int | np.integer | slice) or p is None or p is Ellipsis for p in parts)


def concatenate_forward(*arrays, axis=0):
    """The arrays one after the other along `axis`. saved = (axis, the sizes along it)."""
    return np.concatenate(arrays, axis=axis), (axis, [a.shape[axis] for a in arrays])


def concatenate_backward(dy, saved):
    """Cut dy at the seams."""
    axis, sizes = saved
    return tuple(np.split(dy, np.cumsum(sizes)[:-1], axis=axis))


def stack_forward(*arrays, axis=0):
    """The arrays side by side along a new `axis`. saved = axis."""
    return np.stack(arrays, axis=axis), axis


def stack_backward(dy, axis):
    """Slice i belongs to array i."""
    return tuple(np.moveaxis(dy, axis, 0))


def flip_forward(x, axis=None):
    """x backwards along `axis` (None: all axes). saved = axis."""
    return np.flip(x, axis), axis


def flip_backward(dy, axis):
    """Backwards again."""
    return np.flip(dy, axis)


_reshape = differentiable("reshape", reshape_forward, reshape_backward, saves_inputs=False, view=True)
_transpose = differentiable("transpose", transpose_forward, transpose_backward, saves_inputs=False, view=True)
swapaxes = differentiable("swapaxes", swapaxes_forward, swapaxes_backward, inputs=1, saves_inputs=False, view=True)
_broadcast_to = differentiable("broadcast_to", broadcast_to_forward, broadcast_to_backward, saves_inputs=False)
_getitem = differentiable("getitem", getitem_forward, getitem_backward, saves_inputs=False, view=True)
_concatenate = differentiable("concatenate", concatenate_forward, concatenate_backward, saves_inputs=False)
_stack = differentiable("stack", stack_forward, stack_backward, saves_inputs=False)
flip = differentiable("flip", flip_forward, flip_backward, saves_inputs=False, view=True)


def _unpack(args):
    """reshape(2, 3) and reshape((2, 3)) mean the same."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], tuple | list) else args


def reshape(x, *shape) -> Tensor:
    """The same numbers under another shape: reshape(x, 2, 3) or reshape(x, (2, 3)); one entry may be -1."""
    return _reshape(x, shape=_unpack(shape))


def transpose(x, *axes) -> Tensor:
    """Permute the axes: transpose(x, 1, 0, 2); without axes, reverse them."""
    return _transpose(x, axes=_unpack(axes) or None)


def broadcast_to(x, *shape) -> Tensor:
    """Repeat x until it has `shape`."""
    return _broadcast_to(x, shape=_unpack(shape))


def getitem(x, index) -> Tensor:
    """x[index], with tensors allowed inside the index. These are copied: the backward pass needs them as they were."""
    return _getitem(x, index=tuple(map(_kept, index)) if isinstance(index, tuple) else _kept(index))


def _kept(index):
    return index.data.copy() if isinstance(index, Tensor) else index


def concatenate(tensors, axis: int = 0) -> Tensor:
    """Join a list of tensors along an existing axis."""
    return _concatenate(*tensors, axis=axis)


def stack(tensors, axis: int = 0) -> Tensor:
    """Join a list of tensors along a new axis."""
    return _stack(*tensors, axis=axis)


def expand_dims(x, axis: int) -> Tensor:
    """Add an axis of length 1, before position `axis` of the result."""
    return _reshape(x, shape=_shape_after(np.expand_dims, x, axis, "the new axis must have a place"))


def squeeze(x, axis=None) -> Tensor:
    """Remove axes of length 1: all of them, or those in `axis`."""
    return _reshape(x, shape=_shape_after(np.squeeze, x, axis, "only axes of length 1 can be removed"))


def _shape_after(rule, x, axis, must):
    """The shape that a NumPy function would give an array of x's shape."""
    try:
        return rule(np.broadcast_to(0, np.shape(x)), axis).shape
    except ValueError as error:
        hint = f"NumPy says: {error}. Axes are counted from 0, or from the end with -1, -2, …"
        raise ShapeError(must, f"axis {axis} of shape {np.shape(x)}", hint) from None


def split(x, sections, axis: int = -1) -> list[Tensor]:
    """Cut x along `axis` into equal `sections`, or at the indices of a list, as np.split does.

    Raises ShapeError if the axis cannot be cut into equal parts.
    """
    size = np.shape(x)[axis]
    if isinstance(sections, int) and (sections < 1 or size % sections):
        hint = f"Choose a divisor of {size}, or give the places of the cuts as a list."
        raise ShapeError("the axis must be cut into equal parts", f"{sections} parts of shape {np.shape(x)}", hint)
    places = np.split(np.arange(size), sections)
    before = (slice(None),) * (axis % np.ndim(x))
    return [getitem(x, (*before, slice(p[0], p[-1] + 1) if len(p) else slice(0, 0))) for p in places]
