"""The families of random programs: a strategy each."""

from .elementwise import elementwise
from .indexing import indexing
from .matrix_product import matrix_product
from .reduction import reduction

FAMILIES = {"elementwise": elementwise, "reduction": reduction, "indexing": indexing, "matrix_product": matrix_product}
