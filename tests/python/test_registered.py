"""Every operator that PyTorch registers, called with generated arguments in a process of its own: a part each day.

All parts in a row are the whole sweep, which is python -m tests.python.registered; `pytest --turn N` repeats a part.
"""

import pytest
import torch

from conformance import cases, pool
from tests.python.registered import inputs, names, worker

SAMPLE = 40  # operators of a turn
FAILED_ONCE = [
    "aten::kaiser_window", "aten::kaiser_window.periodic", "aten::kaiser_window.beta_out", "aten::_unsafe_index.Tensor",
    "aten::_unsafe_index_put", "aten::_index_put_impl_", "aten::_log_softmax_backward_data", "aten::_linalg_solve_ex",
    "aten::_saturate_weight_to_fp16", "aten::choose_qparams_optimized", "aten::range.out_", "aten::_to_sparse",
]  # fmt: skip


def failures_of(chosen):
    rows, found = names.known(), []
    pool.run_all(chosen, 1, None, 120, lambda record: found.extend(names.failures(record, rows)),
                 "tests.python.registered.worker")  # fmt: skip
    return found


def test_operators_whose_turn_it_is(request):
    chosen = cases.turn(names.all_names(), request.config.turn, SAMPLE)
    assert not failures_of(chosen)


def test_operators_that_failed_once():
    every = set(names.all_names())
    assert not failures_of([name for name in FAILED_ONCE if name in every])


def test_a_failure_is_seen():
    """A row that is not there, a wrong number, an exception and an internal assert."""
    right, wrong = torch.ones(3), torch.zeros(3)
    result = lambda t: (t, [], None)
    assert worker.judge(result(right.to("ocl")), result(right), False)[0] == "pass"
    assert worker.judge(result(wrong.to("ocl")), result(right), False)[0] == "differs"
    assert worker.judge(result(right), result(right), False)[0] == "differs"  # on the CPU
    assert worker.judge(worker.Raised(RuntimeError("no")), result(right), False)[0] == "raises"
    broken = worker.Raised(RuntimeError("x INTERNAL ASSERT FAILED at y"))
    assert worker.judge(broken, worker.Raised(RuntimeError("no")), False)[0] == "internal"
    record = {"case": "aten::add.Tensor", "checks": {"ocl 0": {"status": "crash", "failures": ["exit -11"]}}}
    assert names.failures(record, [])


@pytest.mark.parametrize("name", ["aten::add.Tensor", "aten::conv2d", "aten::cat", "aten::sort.stable"])
def test_generated_arguments_are_accepted(name):
    """Repeatable, and plain enough that the CPU takes some of the first ones."""
    op = worker.operator(name)
    drawn = [inputs.draw(op._schema, attempt) for attempt in range(worker.ATTEMPTS)]
    again = inputs.draw(op._schema, 0)
    assert str(drawn[0]) == str(again)
    assert any(not isinstance(worker.outcome(lambda: op(*p, **k)), worker.Raised) for p, k in drawn)
