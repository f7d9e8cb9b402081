"""Inductor's elementwise functions of floating numbers, as OpenCL C expressions of {0}, {1}, {2}.

The library's own vector functions (kernels_cl/common) are for one type in a program, float32 unless nothing else than
float64 uses them. The functions of float64 are mostly OpenCL's own.
"""

from typing import NamedTuple

BESSEL = "common/bessel.clh"
NORMAL = "common/normal_distribution.clh"
POLYNOMIALS = "common/orthogonal_polynomials.clh"
GAMMA = "common/incomplete_gamma.clh"


class Function(NamedTuple):
    single: str  # of float32
    double: str | None = (
        None  # of float64 with OpenCL's own functions; None: `single` does for both, in a program of one
    )
    includes: tuple[str, ...] = ()


def _builtin(name: str) -> Function:
    return Function(f"{name}({{0}})", f"{name}({{0}})")


FUNCTIONS: dict[str, Function] = {
    "exp": Function("exp_fast({0})", "exp({0})"),
    "exp2": Function("exp2_of({0})", "exp2({0})"),
    "expm1": Function("expm1_fast({0})", "expm1({0})"),
    "log": Function("log_of({0})", "log({0})"),
    "log2": Function("log2_of({0})", "log2({0})"),
    "log10": Function("log10_of({0})", "log10({0})"),
    "log1p": Function("log1p_of({0})", "log1p({0})"),
    "sin": Function("sin_of({0})", "sin({0})"),
    "cos": Function("cos_of({0})", "cos({0})"),
    "tan": Function("tan_of({0})", "tan({0})"),
    "tanh": Function("tanh_fast({0})", "tanh({0})"),
    "asinh": Function("asinh_of({0})", "asinh({0})"),
    "acosh": Function("acosh_of({0})", "acosh({0})"),
    "atanh": Function("atanh_of({0})", "atanh({0})"),
    "erf": Function("erf_fast({0})", "erf({0})"),
    "erfc": Function("erfc_fast({0})", "erfc({0})"),
    "lgamma": Function("lgamma_of({0})", "lgamma({0})"),
    "sigmoid": Function("sigmoid_of({0})", "(1.0 / (1.0 + exp(-({0}))))"),
    **{name: _builtin(name) for name in ("sqrt", "asin", "acos", "atan", "sinh", "cosh")},
    "rsqrt": Function("(1.0f / sqrt({0}))", "(1.0 / sqrt({0}))"),
    "reciprocal": Function("(1.0f / ({0}))", "(1.0 / ({0}))"),
    "floor": Function("FLOOR({0})", "floor({0})"),
    "ceil": Function("CEIL({0})", "ceil({0})"),
    "trunc": Function("TRUNC({0})", "trunc({0})"),
    "round": Function("ROUND_EVEN({0})", "rint({0})"),
    "pow": Function("pow_of({0}, {1})", "POWER(float64, W, {0}, {1})"),
    "atan2": Function("atan2({0}, {1})", "atan2({0}, {1})"),
    "hypot": Function("hypot({0}, {1})", "hypot({0}, {1})"),
    "nextafter": Function("nextafter({0}, {1})", "nextafter({0}, {1})"),
    "copysign": Function("copy_sign({0}, {1})", "copysign({0}, {1})"),
    "fmod": Function("fmod_of({0}, {1})"),
    "remainder": Function("remainder_of({0}, {1})"),
    "floor_divide": Function("floor_divide({0}, {1})"),
    "fma": Function("fma({0}, {1}, {2})", "fma({0}, {1}, {2})"),
    # ---- special functions
    "erfinv": Function("erfinv_of({0})"),
    "digamma": Function("digamma_of({0})"),
    "special_zeta": Function("zeta_of({0}, {1})"),
    "special_ndtr": Function("(erfc_fast(({0}) * (S)-0.70710678118654752440) / (S)2)"),
    "igamma": Function("igamma_of({0}, {1})", includes=(GAMMA,)),
    "igammac": Function("igammac_of({0}, {1})", includes=(GAMMA,)),
    "special_gammainc": Function("igamma_of({0}, {1})", includes=(GAMMA,)),
    "special_gammaincc": Function("igammac_of({0}, {1})", includes=(GAMMA,)),
    "special_erfcx": Function("erfcx_of({0})", includes=(BESSEL, NORMAL)),
    "special_log_ndtr": Function("log_ndtr_of({0})", includes=(BESSEL, NORMAL)),
    "special_ndtri": Function("ndtri_of({0})", includes=(BESSEL, NORMAL)),
    **{
        name: Function(f"{function}({{0}})", includes=(BESSEL,))
        for name, function in {
            "i0": "i0_of",
            "special_i0e": "i0e_of",
            "i1": "i1_of",
            "special_i1": "i1_of",
            "special_i1e": "i1e_of",
            "special_modified_bessel_i0": "i0_of",
            "special_modified_bessel_i1": "i1_of",
            "modified_bessel_i0": "i0_of",
            "modified_bessel_i1": "i1_of",
            "special_modified_bessel_k0": "k0_of",
            "special_modified_bessel_k1": "k1_of",
            "special_scaled_modified_bessel_k0": "k0e_of",
            "special_scaled_modified_bessel_k1": "k1e_of",
            "special_bessel_j0": "bessel_j0_of",
            "special_bessel_j1": "bessel_j1_of",
            "bessel_j0": "bessel_j0_of",
            "bessel_j1": "bessel_j1_of",
            "special_bessel_y0": "bessel_y0_of",
            "special_bessel_y1": "bessel_y1_of",
            "special_spherical_bessel_j0": "spherical_bessel_j0_of",
            "special_airy_ai": "airy_ai_of",
        }.items()
    },
    **{
        f"special_{shifted}chebyshev_polynomial_{letter}": Function(
            f"chebyshev_{letter}_of({'2 * ({0}) - (S)1' if shifted else '{0}'}, {{1}})", includes=(POLYNOMIALS,)
        )
        for letter in "tuvw"
        for shifted in ("", "shifted_")
    },
    "special_hermite_polynomial_h": Function("hermite_h_of({0}, {1})", includes=(POLYNOMIALS,)),
    "special_hermite_polynomial_he": Function("hermite_he_of({0}, {1})", includes=(POLYNOMIALS,)),
    "special_laguerre_polynomial_l": Function("laguerre_of({0}, {1})", includes=(POLYNOMIALS,)),
    "special_legendre_polynomial_p": Function("legendre_of({0}, {1})", includes=(POLYNOMIALS,)),
}
