"""What goes wrong with a model, said in the model's own terms."""


class ModelError(RuntimeError):
    """A model cannot be imported or run. The text names the node, its operator and opset, and the input."""


class UnsupportedError(ModelError):
    """The model is fine as far as we can see, but it uses something that has no row in the table of operators."""
