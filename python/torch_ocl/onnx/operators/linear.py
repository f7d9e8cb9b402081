"""Matrix products."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row


def product(a: Tensor, b: Tensor) -> Tensor:
    """numpy's matmul; integers too, on every device."""
    if a.is_floating_point() or a.dtype in (torch.int32, torch.int64) or a.is_complex():
        return torch.matmul(a, b)
    return torch.matmul(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)


@row("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product, with broadcast batches."""
    return product(a, b)


@row("Gemm", 7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha * A B + beta * C, where A and B may be transposed and C broadcasts."""
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"A has the shape {list(a.shape)} and B {list(b.shape)}, expected matrices")
    a = a.t() if transA else a
    if alpha == 1 and beta == 1 and a.is_floating_point() and (c is None or c.dim() == 1):
        return F.linear(a, b if transB else b.t(), c)
    b = b.t() if transB else b
    if c is not None and a.is_floating_point() and c.dim() <= 2:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)
    result = product(a, b)
    if alpha != 1:
        result = (result * alpha).to(a.dtype)
    if c is None:
        return result
    return result + (c if beta == 1 else (c * beta).to(a.dtype))


@row("Gemm", 1)
def gemm_1(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Gemm before opset 7, where broadcasting is asked for."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@row("Det", 11)
def determinant(x: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return torch.linalg.det(x)
