"""Meta's ``consolidated.NN.pth``: model-parallel slices, and along which dimension each matrix is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from doctor.formats.tensor import Tensor, WeightFile

#: By the last named part before ``.weight``. Norms and rotary tables are copied into every file.
_AXES = {"wq": 0, "wk": 0, "wv": 0, "wo": 1, "w1": 0, "w2": 1, "w3": 0, "output": 0}


def axis(tensor: Tensor, hidden: Optional[int]) -> Optional[int]:
    """The dimension that is cut, or None for a copy. The embedding is cut by columns in LLaMA 1 and 2 and by rows in
    LLaMA 3: the hidden size tells."""
    part = tensor.name.rpartition(".weight")[0].rpartition(".")[2]
    if part == "tok_embeddings":
        return 0 if hidden is not None and len(tensor.shape) == 2 and tensor.shape[1] == hidden else 1
    return _AXES.get(part)


def hidden_size(files: Sequence[WeightFile]) -> Optional[int]:
    """From the final norm, which is not cut."""
    for file in files:
        for tensor in file.tensors:
            if tensor.name == "norm.weight" and len(tensor.shape) == 1:
                return tensor.shape[0]
    return None


def parts(files: Sequence[WeightFile]) -> Optional[int]:
    """Into how many files the model was cut: the output projection is square in the whole and cut by columns. None
    when the files do not tell."""
    hidden = hidden_size(files)
    for tensor in (tensor for file in files for tensor in file.tensors):
        if hidden and tensor.name.endswith(".attention.wo.weight") and len(tensor.shape) == 2:
            rows, columns = tensor.shape
            return hidden // columns if rows == hidden and columns and hidden % columns == 0 else None
    return None


def whole_shapes(files: Sequence[WeightFile]) -> dict[str, tuple[int, ...]]:
    """Shapes of the parameters joined from all files; empty when the final norm is not there to tell."""
    hidden = hidden_size(files)
    if hidden is None:
        return {}
    found: dict[str, tuple[int, ...]] = {}
    for tensor in (tensor for file in files for tensor in file.tensors):
        cut = axis(tensor, hidden)
        before = found.get(tensor.name)
        if before is None or cut is None or len(before) != len(tensor.shape) or cut >= len(before):
            found.setdefault(tensor.name, tensor.shape)
        else:
            found[tensor.name] = (*before[:cut], before[cut] + tensor.shape[cut], *before[cut + 1 :])
    return found
