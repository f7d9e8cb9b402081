"""PyTorch Geometric: graph networks whose messages are gathered by index and scattered with reductions."""

from functools import partial

import torch
from torch.nn import functional as F

from .model import Model, randint, randn

NODES, EDGES, FEATURES, CLASSES = 30, 90, 12, 4


def network(name, **options):
    import torch_geometric.nn

    return getattr(torch_geometric.nn, name)(
        FEATURES, hidden_channels=16, num_layers=2, out_channels=CLASSES, **options
    )


def graph():
    return randn(NODES, FEATURES, seed=1), randint(NODES, 2, EDGES, seed=2), randint(CLASSES, NODES, seed=3)


def loss(network, features, edges, classes):
    return F.cross_entropy(network(features, edges), classes)


def output(network, features, edges, classes):
    return network(features, edges)


class GraphClassifier(torch.nn.Module):
    """A GIN and pooling of each graph of a batch by sum, mean and maximum."""

    def __init__(self):
        super().__init__()
        import torch_geometric.nn

        self.pools = (
            torch_geometric.nn.global_add_pool,
            torch_geometric.nn.global_mean_pool,
            torch_geometric.nn.global_max_pool,
        )
        self.body, self.head = network("GIN"), torch.nn.Linear(3 * CLASSES, 2)

    def forward(self, features, edges, graphs):
        nodes = self.body(features, edges)
        return self.head(torch.cat([pool(nodes, graphs, size=3) for pool in self.pools], dim=1))


def graphs():
    features, edges, _ = graph()
    return features, edges, torch.arange(NODES) * 3 // NODES, torch.tensor([0, 1, 0])


NETWORKS = {
    "gcn": ("GCN", {}),
    "graph_sage": ("GraphSAGE", {}),
    "graph_sage_max": ("GraphSAGE", {"aggr": "max"}),
    "gat": ("GAT", {"heads": 2}),
    "gatv2": ("GAT", {"heads": 2, "v2": True}),
    "gin": ("GIN", {}),
    "pna": (
        "PNA",
        {
            "aggregators": ["mean", "min", "max", "std"],
            "scalers": ["identity", "amplification"],
            "deg": torch.tensor([0, 5, 10, 10, 5]),
        },
    ),
    "edge_cnn": ("EdgeCNN", {}),
}


def rows():
    quick = {"gat"}
    for name, (kind, options) in NETWORKS.items():
        yield Model("torch_geometric", name, partial(network, kind, **options), graph, loss, output, name in quick)
    yield Model("torch_geometric", "graph_classifier", GraphClassifier, graphs,
                lambda network, features, edges, graphs, classes: F.cross_entropy(network(features, edges, graphs),
                    classes),
                lambda network, features, edges, graphs, classes: network(features, edges, graphs), True)  # fmt: skip
