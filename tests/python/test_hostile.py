"""Calls with hostile arguments, in processes of their own: other ones each day. python -m tests.python.hostile makes as
many as one likes, and repeats one; `pytest --turn N` repeats a day's.
"""

import random

import pytest

from tests.python.hostile import draws, names, running, worker
from tests.python.registered.worker import operator

SAMPLE = 150


def test_no_call_ends_the_process(request):
    deaths, returned = running.run(running.draw(SAMPLE, request.config.turn))
    assert not deaths, "\n".join(deaths)
    assert returned > SAMPLE // 10  # plausible enough that kernels are reached


def test_a_death_is_seen():
    deaths, _ = running.run(["aten.add.Tensor(tensor((3,)), __import__('os').abort())"], report=lambda _: None)
    assert len(deaths) == 1 and "exit -6" in deaths[0] and "alone: crash" in deaths[0]


@pytest.mark.parametrize("name", ["aten::add.Tensor", "aten::softmax.int", "aten::cat", "aten::sort.values_stable"])
def test_calls_are_repeatable(name):
    """The same text for the same numbers, and some that return."""
    schema = operator(name)._schema
    texts = [draws.call(schema, random.Random(seed)) for seed in range(30)]
    assert texts == [draws.call(schema, random.Random(seed)) for seed in range(30)]
    assert any(worker.evaluate(text) == "done" for text in texts)


def test_most_operators_can_be_drawn():
    drawn = running.draw(len(names.all_names()), 0)
    assert len({names.operator_of(text) for text in drawn}) > 1000
