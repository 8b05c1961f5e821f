# SPDX-License-Identifier: Apache-2.0
"""Why an operation makes NaN or infinity, and the change that mends it: knowledge as data. Runs anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from firstfault.records.step import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What is known of one operation."""

    cause: str
    fix: str


_FORWARD: dict[str, Advice] = {
    "sqrt": Advice(cause="the square root of a negative number is NaN", fix="torch.sqrt(x.clamp(min=0) + eps)"),
    "rsqrt": Advice(cause="1/sqrt(x) is infinite at 0 and NaN below", fix="torch.rsqrt(x.clamp(min=0) + eps)"),
    "log": Advice(
        cause="the logarithm of 0 is -inf, and of a negative number NaN",
        fix="torch.log(x.clamp(min=eps)), or a function made for it: log_softmax, logsumexp, logsigmoid",
    ),
    "log1p": Advice(cause="log1p(x) is -inf at -1 and NaN below", fix="torch.log1p(x.clamp(min=-1 + eps))"),
    "exp": Advice(
        cause="exp overflows: float32 above 88.7, float16 above 11.0",
        fix="subtract the maximum first, clamp the argument, or use softmax, logsumexp, softplus",
    ),
    "div": Advice(cause="a division by zero", fix="x / (y + eps), or torch.where(y == 0, 0, x / y.clamp(min=eps))"),
    "reciprocal": Advice(cause="1/0", fix="1 / (x + eps)"),
    "pow": Advice(
        cause="a power overflows, or a negative number has a fractional exponent", fix="clamp the base first"
    ),
    "mul": Advice(
        cause="a product overflows, or 0 meets infinity", fix="scale the factors down, or clamp the one that grows"
    ),
    "mm": Advice(
        cause="the sum of products overflows the number format",
        fix="lower the learning rate or normalise the inputs; in float16, use bfloat16 or a loss scaler",
    ),
    "softmax": Advice(
        cause="every score of a row is -inf, so the row has nothing to share out",
        fix="leave one position of each row unmasked, or fill with a large negative number: -1e9",
    ),
    "mean": Advice(cause="the mean of no elements is NaN", fix="skip the batch when nothing is left to average"),
    "std": Advice(
        cause="the standard deviation of fewer than two elements is NaN",
        fix="x.std(unbiased=False), or larger groups",
    ),
    "acos": Advice(cause="the argument is outside of [-1, 1]", fix="torch.acos(x.clamp(-1 + eps, 1 - eps))"),
    "asin": Advice(cause="the argument is outside of [-1, 1]", fix="torch.asin(x.clamp(-1 + eps, 1 - eps))"),
    "atanh": Advice(cause="atanh is infinite at ±1 and NaN beyond", fix="x.clamp(-1 + eps, 1 - eps)"),
    "binary_cross_entropy": Advice(
        cause="the prediction left [0, 1]", fix="use binary_cross_entropy_with_logits on the raw outputs"
    ),
}
_BACKWARD: dict[str, Advice] = {
    "sqrt": Advice(
        cause="the derivative of sqrt is 1/(2·sqrt(x)): infinite at 0, and NaN once a 0 is multiplied in",
        fix="torch.sqrt(x + eps), with eps = 1e-8 or so",
    ),
    "norm": Advice(
        cause="the derivative of a norm is x/|x|: 0/0 at 0",
        fix="torch.sqrt((x ** 2).sum(dim) + eps), or leave out rows that are 0",
    ),
    "div": Advice(cause="the derivative of a division by a number near 0 overflows", fix="x / (y + eps)"),
    "log": Advice(cause="the derivative of log is 1/x: infinite at 0", fix="torch.log(x.clamp(min=eps))"),
    "pow": Advice(
        cause="the derivative of x**p with p < 1 is infinite at 0", fix="(x + eps) ** p, or x.clamp(min=eps) ** p"
    ),
    "acos": Advice(cause="the derivative of acos is infinite at ±1", fix="x.clamp(-1 + eps, 1 - eps)"),
    "asin": Advice(cause="the derivative of asin is infinite at ±1", fix="x.clamp(-1 + eps, 1 - eps)"),
    "atan2": Advice(
        cause="the derivative of atan2 is 0/0 where both arguments are 0", fix="add eps to one of them"
    ),
    "std": Advice(
        cause="the derivative of std divides by it: 0/0 where all elements are equal",
        fix="torch.sqrt(x.var(unbiased=False) + eps)",
    ),
    "where": Advice(
        cause="where() multiplies the branch not taken by 0, and 0 times infinity is NaN",
        fix="make the argument safe before the operation, not after: f(torch.where(ok, x, 1.0))",
    ),
    "exp": Advice(cause="exp overflows, and so does its derivative", fix="clamp the argument of exp"),
}
_ALIASES = {
    "linalg_vector_norm": "norm", "linalg_norm": "norm", "cdist": "norm", "addmm": "mm", "bmm": "mm",
    "matmul": "mm", "linear": "mm", "conv": "mm", "log_softmax": "softmax",
    "scaled_dot_product_attention": "softmax",
    "true_divide": "div", "square": "pow", "var_mean": "std", "std_mean": "std", "var": "std", "log2": "log",
    "log10": "log", "expm1": "exp", "cosh": "exp", "sinh": "exp", "exp2": "exp",
}  # fmt: skip


def advice_for(operation: str, stage: Stage) -> Advice:
    """What to say of an operation whose result (or, in backward, whose gradient) is the first bad value."""
    name = _ALIASES.get(operation, operation)
    if stage == "backward":
        return _BACKWARD.get(name) or Advice(
            cause=f"the derivative of {operation} is not finite at these values",
            fix=f"keep the argument of {operation} away from where its derivative is infinite, or clip it",
        )
    return _FORWARD.get(name) or Advice(
        cause=f"{operation} made NaN or infinity of finite values",
        fix=f"check the range of what goes into {operation}, and clamp it",
    )
