"""The functions of the table of operators under names like `Conv_1` or `Softmax_13`: operator and opset.

registry.add() puts them here, so that the code of an imported graph reads well and a module can be pickled: torch.fx
imports functions by name.
"""
