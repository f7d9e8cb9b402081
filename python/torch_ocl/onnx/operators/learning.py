"""The domain ai.onnx.ml as far as its operators work on tensors."""

from typing import Any

import torch
from torch import Tensor

from ..registry import row

ML = "ai.onnx.ml"


@row("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 above the threshold, 0 elsewhere."""
    return (x > threshold).to(x.dtype)


@row("Scaler", domain=ML)
def scaler(x: Tensor, *, offset: Any = (0.0,), scale: Any = (1.0,)) -> Tensor:
    """(x - offset) * scale, by columns."""
    options: dict[str, Any] = {"dtype": torch.float32, "device": x.device}
    return (x.float() - torch.tensor(list(offset), **options)) * torch.tensor(list(scale), **options)


@row("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Rows over their largest element or their norm."""
    x = x.float()
    if norm == "MAX":
        total = x.abs().amax(-1, True)
    else:
        total = x.abs().sum(-1, True) if norm == "L1" else torch.sqrt((x * x).sum(-1, True))
    return x / torch.where(total == 0, torch.ones_like(total), total)


def _post(scores: Tensor, transform: str) -> Tensor:
    if transform == "SOFTMAX":
        return torch.softmax(scores, -1)
    if transform == "LOGISTIC":
        return torch.sigmoid(scores)
    if transform != "NONE":
        raise NotImplementedError(f"post_transform {transform}")
    return scores


@row("LinearRegressor", domain=ML)
def linear_regressor(
    x: Tensor, *, coefficients: Any = (), intercepts: Any = (), post_transform: str = "NONE", targets: int = 1
) -> Tensor:
    """x times coefficients, plus intercepts."""
    options: dict[str, Any] = {"dtype": torch.float32, "device": x.device}
    y = x.float() @ torch.tensor(list(coefficients), **options).reshape(targets, -1).t()
    return _post(y + torch.tensor(list(intercepts), **options) if intercepts else y, post_transform)


@row("Imputer", domain=ML)
def imputer(
    x: Tensor,
    *,
    imputed_value_floats: Any = None,
    imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """x with one value replaced by columns."""
    values = imputed_value_floats if x.is_floating_point() else imputed_value_int64s
    missing = torch.isnan(x) if replaced_value_float != replaced_value_float else x == replaced_value_float
    missing = missing if x.is_floating_point() else x == replaced_value_int64
    return torch.where(missing, torch.tensor(values, dtype=x.dtype, device=x.device), x)


_COMPARISONS = {0: torch.le, 1: torch.lt, 2: torch.ge, 3: torch.gt, 4: torch.eq, 5: torch.ne}


@row("TreeEnsemble", 5, domain=ML)
def tree_ensemble(
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Any,
    leaf_weights: Tensor,
    membership_values: Tensor | None = None,
    n_targets: int,
    nodes_falseleafs: Any,
    nodes_falsenodeids: Any,
    nodes_featureids: Any,
    nodes_hitrates: Tensor | None = None,
    nodes_missing_value_tracks_true: Any = None,
    nodes_modes: Tensor,
    nodes_splits: Tensor,
    nodes_trueleafs: Any,
    nodes_truenodeids: Any,
    post_transform: int = 0,
    tree_roots: Any,
) -> Tensor:
    """Sums (or means, minima, maxima) of the leaves that rows of x reach in trees. All rows descend together."""
    modes, device = nodes_modes.tolist(), x.device
    sets = _membership_sets(modes, membership_values)
    true_to = [(i, bool(leaf)) for i, leaf in zip(nodes_truenodeids, nodes_trueleafs)]
    false_to = [(i, bool(leaf)) for i, leaf in zip(nodes_falsenodeids, nodes_falseleafs)]
    splits = nodes_splits.tolist()
    tracks = nodes_missing_value_tracks_true or [0] * len(modes)
    reached = torch.zeros((x.shape[0], len(leaf_targetids), len(tree_roots)), dtype=torch.bool, device=device)

    def visit(node: int, rows: Tensor, tree: int) -> None:
        feature = x[:, nodes_featureids[node]]
        if modes[node] == 6:
            hit = torch.zeros_like(rows)
            for value in sets[node]:
                hit = hit | (feature == value)
        else:
            hit = _COMPARISONS[modes[node]](feature, splits[node])
        if tracks[node]:
            hit = hit | torch.isnan(feature)
        for (target, leaf), part in ((true_to[node], rows & hit), (false_to[node], rows & ~hit)):
            if leaf:
                reached[:, target, tree] |= part
            else:
                visit(target, part, tree)

    for tree, root in enumerate(tree_roots):
        everything = torch.ones(x.shape[0], dtype=torch.bool, device=device)
        if nodes_trueleafs[root] and nodes_falseleafs[root] and nodes_truenodeids[root] == nodes_falsenodeids[root]:
            reached[:, nodes_truenodeids[root], tree] |= everything
        else:
            visit(root, everything, tree)
    weights = leaf_weights.to(device)
    columns = []
    for target in range(n_targets):
        leaves = [i for i, place in enumerate(leaf_targetids) if place == target]
        taken, values = reached[:, leaves], weights[leaves].reshape(1, -1, 1)
        columns.append(_aggregate(taken, values, aggregate_function, len(tree_roots)))
    scores = torch.stack(columns, 1)
    return _post(scores, {0: "NONE", 1: "SOFTMAX", 2: "LOGISTIC"}.get(post_transform, str(post_transform)))


def _aggregate(taken: Tensor, values: Tensor, function: int, trees: int) -> Tensor:
    if function in (0, 1):
        total = (taken * values).sum((1, 2))
        return total / trees if function == 0 else total
    edge = torch.inf if function == 2 else -torch.inf
    table = torch.where(taken, values, torch.full_like(values, edge)).flatten(1)
    return table.amin(1) if function == 2 else table.amax(1)


def _membership_sets(modes: list[int], members: Tensor | None) -> dict[int, list[float]]:
    """For each node that tests membership the values of its set; NaN ends one."""
    sets: dict[int, list[float]] = {}
    nodes = [index for index, mode in enumerate(modes) if mode == 6]
    values = [] if members is None else members.tolist()
    for node in nodes:
        end = next((i for i, value in enumerate(values) if value != value), len(values))
        sets[node], values = values[:end], values[end + 1 :]
    return sets
