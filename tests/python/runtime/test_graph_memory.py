"""Memory of graphs and of pools: nobody else gets it, and it is given back at the end."""

from functools import partial

import pytest
import torch

feature = pytest.mark.feature


def captured(body, **options):
    graph = torch.ocl.OclGraph()
    with torch.ocl.graph(graph, **options):
        result = body()
    return graph, result


@feature("Graph capture")
def test_memory_of_a_graph_is_its_own(device):
    x = torch.ones(100_000, device=device)

    def body():
        for _ in range(4):  # freed and used again inside of the pool
            y = x * 2 + 1
        return y

    graph, y = captured(body)
    del body
    others = [torch.full((100_000,), 7.0, device=device) for _ in range(20)]
    graph.replay()
    assert all(bool((other == 7).all()) for other in others)
    del others
    torch.ocl.empty_cache()
    new = [torch.full((100_000,), 9.0, device=device) for _ in range(20)]
    assert bool((y == 3).all())
    x.fill_(2)
    graph.replay()
    assert bool((y == 5).all()) and all(bool((other == 9).all()) for other in new)


def reserved(pool):
    """Bytes of segments of the pool."""
    return sum(s["total_size"] for s in torch.ocl.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool))


@feature("Graph capture")
def test_graphs_share_a_pool_and_give_it_back(device):
    x = torch.ones(300, 300, device=device)
    first, a = captured(partial(torch.add, x, 1))
    pool = first.pool()
    second, b = captured(partial(torch.mul, a, 2), pool=pool)
    assert second.pool() == pool and reserved(pool) > 0
    own, c = captured(partial(torch.mul, a, 2))
    assert own.pool() != pool
    first.replay()
    second.replay()
    own.replay()
    assert bool((b == 4).all()) and bool((c == 4).all())
    del a, b
    first.reset()
    torch.ocl.empty_cache()
    assert reserved(pool) > 0  # the second graph's
    del second
    torch.ocl.empty_cache()
    of_own = own.pool()
    assert reserved(pool) > 0 and reserved(of_own) > 0  # `own` reads the first one's result
    del own
    torch.ocl.empty_cache()
    assert reserved(pool) == 0 and reserved(of_own) > 0  # `c` lies there
    named = torch.ocl.graph_pool_handle()
    third, _ = captured(lambda: x + 1, pool=named)
    assert third.pool() == named not in (pool, of_own)


@feature("Memory pools")
def test_memory_pools_divide_the_memory(device):
    pool, other = torch.ocl.MemPool(), torch.ocl.MemPool()
    assert pool.id != other.id and pool.use_count() == 1
    with torch.ocl.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.ones(1000, device=device)
        with torch.ocl.use_mem_pool(other):
            y = torch.ones(1000, device=device)
        z = torch.ones(1000, device=device)
    outside = torch.ones(1000, device=device)

    def holds(pool, tensor):
        return any(s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"] for s in pool.snapshot())

    assert holds(pool, x) and holds(pool, z) and holds(other, y)
    assert not holds(pool, y) and not holds(pool, outside) and not holds(other, outside)
    graph, w = captured(partial(torch.add, x, 1), pool=pool)
    assert holds(pool, w) and pool.use_count() == 2
    del x, y, z, w, graph
    torch.ocl.empty_cache()
    assert reserved(pool.id) > 0
    name = pool.id
    del pool
    torch.ocl.empty_cache()
    assert reserved(name) == 0
    with pytest.raises(NotImplementedError, match="one allocator"):
        torch.ocl.MemPool(allocator=object())
