"""The checks of one operator and dtype: functions (row of the database, dtype, Recorder), listed in CHECKS.

A check runs the same procedure on the CPU and on `ocl` and has the recorder compare the outcomes: results or
exceptions.
"""

from .calling_checks import errors, inplace, out, overlap
from .derivative_checks import gradient, second_gradient
from .value_checks import cpu_scalars, layouts, promotion, special_values, strides, values, zero_size

CHECKS = {
    check.__name__: check
    for check in (
        values,
        layouts,
        strides,
        out,
        inplace,
        overlap,
        zero_size,
        cpu_scalars,
        promotion,
        special_values,
        errors,
        gradient,
        second_gradient,
    )
}
