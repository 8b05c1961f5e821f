# SPDX-License-Identifier: Apache-2.0
"""What a person calls an operation that PyTorch calls `_log_softmax` or `NativeLayerNormBackward0`."""

from __future__ import annotations

import functools
import re
from typing import Any

from torch.autograd.function import BackwardCFunction

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
_DERIVATIVE = re.compile(r"Backward(s|\d*)$")
_PREFIX = re.compile(r"^(_?foreach_|_?native_|_?cudnn_|_?miopen_|_?mkldnn_|_?thnn_|special_|_+)+")
_SUFFIX = re.compile(r"(_forward|_with_indices|_legit_no_training|_legit|_with_update|_functional|_no_update|_)$")
_WORDS = {
    "convolution": "conv",
    "convolution_overrideable": "conv",
    "linalg_vector_norm": "norm",
    "rsub": "sub",
    "to_copy": "to",
    "true_divide": "div",
    "unsafe_view": "view",
    "batch_norm_impl_index": "batch_norm",
}


@functools.cache
def user_word(name: str) -> str:
    """`softmax` for `_softmax`, `add` for `add_`, `conv` for `mkldnn_convolution`."""
    word = _SUFFIX.sub("", _PREFIX.sub("", name)) or name
    word = _WORDS.get(word, word)
    # the attention has one name and a dozen kernels
    return "scaled_dot_product_attention" if word.startswith("scaled_dot_product") else word


def is_custom(node: Any) -> bool:
    """Whether the node is of an `autograd.Function` written in Python."""
    return isinstance(node, BackwardCFunction)


def operation_of_node(node: Any) -> str:
    """The forward operation whose derivative a backward node is; a custom Function keeps its class name."""
    if is_custom(node):
        name: str = getattr(node, "_forward_cls", type(node)).__name__
        return name
    name = _DERIVATIVE.sub("", node.name().rpartition("::")[2])
    return user_word(_HUMP.sub("_", name).lower())
