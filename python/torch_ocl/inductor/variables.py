"""The variables of a generated kernel: each text is computed once, and declared with its type."""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.codegen.common import CSE, CSEVariable
from torch._inductor.virtualized import OpsValue, V

from . import dtypes

Lines = Callable[[str], list[str]]


class OclCSE(CSE):
    """Declares every variable with its type, and keeps equal texts of different types apart (a mask and an int)."""

    dtype: torch.dtype | None = None

    def augment_key(self, cache_key: str) -> Any:
        return (cache_key, self.dtype)

    def generate(self, buffer: Any, expr: Any, *, dtype: Any = None, assignment: bool = True, **rest: Any) -> Any:
        if isinstance(expr, (CSEVariable, OpsValue)) or not assignment:
            return super().generate(buffer, expr, dtype=dtype, assignment=assignment, **rest)
        assert isinstance(dtype, torch.dtype), f"no type for {expr}"
        self.dtype, self.prefix = dtype, f"{dtypes.c_type(dtype, V.kernel.width)} "
        if V.kernel.is_same_along_rows(str(expr)):
            variable = super().generate(V.kernel.row_code, expr, dtype=dtype, assignment=assignment, **rest)
            V.kernel.same_along_rows.add(str(variable))
            return variable
        return super().generate(buffer, expr, dtype=dtype, assignment=assignment, **rest)

    def of_lines(self, buffer: Any, key: str, dtype: torch.dtype, make: Lines) -> CSEVariable:
        """A variable that several lines compute; make(name) gives them, declaration included."""
        self.dtype = dtype
        variable = self.try_get(key)
        if variable is None:
            variable = self.newvar(dtype=dtype, shape=())
            self.put(key, variable)
            buffer.writelines(make(str(variable)))
        else:
            variable.use_count += 1
        return variable
