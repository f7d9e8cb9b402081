"""What goes wrong with a model, said in the model's own terms."""

from typing_extensions import Self


class ModelError(RuntimeError):
    """A model cannot be imported or run. The text names the node, its operator and opset, and the input."""

    placed = False

    def at(self, place: str) -> Self:
        """The same error with the node in front of its text, unless it names one already."""
        if self.placed:
            return self
        error = type(self)(f"{place}: {self}")
        error.placed = True
        return error


class UnsupportedError(ModelError):
    """The model is fine as far as we can see, but it uses something that has no row in the table of operators."""
