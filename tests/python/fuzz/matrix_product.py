"""Matrix products of every kind of operand."""

import torch
from hypothesis import strategies as st

from .program import Program
from .views import FLOATING, INTEGRAL, broadcast_to, sources

SIZES = st.sampled_from([1, 2, 5, 16, 33, 70])
BATCHES = st.sampled_from([(), (), (2,), (3, 2), (1,)])
DTYPES = st.sampled_from([*FLOATING, torch.float32, torch.float32, *INTEGRAL, torch.complex64])


def _sizes(draw):
    n, m, k = (draw(SIZES) for _ in range(3))
    return n, m, 0 if draw(st.integers(0, 30)) == 0 else k


def _operand(draw, dtype, *shape):
    """Complex operands are finite: whether a product of infinities is C's or the textbook's depends on the CPU's
    algorithm."""
    return draw(sources((dtype,), shape=shape, ordinary=dtype.is_complex))


def _bias(draw, dtype, *shape):
    return draw(broadcast_to(shape, (dtype,), ordinary=dtype.is_complex))


def _matmul(draw):
    dtype, batch, (n, m, k) = draw(DTYPES), draw(BATCHES), _sizes(draw)
    second = batch[draw(st.integers(0, 1)) :]
    return Program(
        "matmul",
        torch.matmul,
        [_operand(draw, dtype, *batch, n, k), _operand(draw, dtype, *second, k, m)],
        reduces=True,
    )


def _batches(draw):
    dtype, (n, m, k) = draw(DTYPES), _sizes(draw)
    operands = [_operand(draw, dtype, 3, n, k), _operand(draw, dtype, 3, k, m)]
    if draw(st.booleans()):
        return Program("bmm", torch.bmm, operands, reduces=True)
    alpha, beta = draw(st.sampled_from([1, 2])), draw(st.sampled_from([0, 1, 3]))
    bias = _bias(draw, dtype, 3, n, m)
    return Program(
        f"baddbmm({beta}, {alpha})",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=beta, alpha=alpha),
        [bias, *operands],
        reduces=True,
    )


def _vector(draw):
    dtype, batch, (n, m, k) = draw(DTYPES), draw(BATCHES), _sizes(draw)
    kind = draw(st.sampled_from(["matmul_vector", "vector_matmul", "dot", "outer", "addmv", "addr"]))
    if kind == "matmul_vector":
        return Program(
            kind, torch.matmul, [_operand(draw, dtype, *batch, n, k), _operand(draw, dtype, k)], reduces=True
        )
    if kind == "vector_matmul":
        return Program(
            kind, torch.matmul, [_operand(draw, dtype, k), _operand(draw, dtype, *batch, k, m)], reduces=True
        )
    if kind == "dot":
        return Program(kind, torch.dot, [_operand(draw, dtype, k), _operand(draw, dtype, k)], reduces=True)
    if kind == "addmv":
        return Program(
            kind,
            torch.addmv,
            [_operand(draw, dtype, n), _operand(draw, dtype, n, k), _operand(draw, dtype, k)],
            reduces=True,
        )
    if kind == "addr":
        return Program(
            kind, torch.addr, [_operand(draw, dtype, n, m), _operand(draw, dtype, n), _operand(draw, dtype, m)]
        )
    return Program(kind, torch.outer, [_operand(draw, dtype, n), _operand(draw, dtype, m)])


def _addmm(draw):
    dtype, (n, m, k) = draw(DTYPES), _sizes(draw)
    alpha, beta = draw(st.sampled_from([1, 2])), draw(st.sampled_from([0, 1, 3]))
    bias = _bias(draw, dtype, n, m)
    operands = [bias, _operand(draw, dtype, n, k), _operand(draw, dtype, k, m)]
    return Program(
        f"addmm({beta}, {alpha})", lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), operands, reduces=True
    )


def _into(draw):
    dtype, (n, m, k) = draw(DTYPES), _sizes(draw)
    operands = [_operand(draw, dtype, n, m), _operand(draw, dtype, n, k), _operand(draw, dtype, k, m)]
    return Program("mm(out=)", lambda c, a, b: torch.mm(a, b, out=c), operands, writes=True, reduces=True)


def _linear(draw):
    dtype, batch, (n, m, k) = draw(st.sampled_from(FLOATING)), draw(BATCHES), _sizes(draw)
    operands = [_operand(draw, dtype, *batch, n, k), _operand(draw, dtype, m, k), _operand(draw, dtype, m)]
    return Program("linear", torch.nn.functional.linear, operands, reduces=True)


KINDS = (_matmul, _matmul, _batches, _vector, _addmm, _into, _linear)


@st.composite
def matrix_product(draw):
    return draw(st.sampled_from(KINDS))(draw)
