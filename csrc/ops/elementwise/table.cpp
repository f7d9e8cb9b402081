#include "ops/elementwise/elementwise.h"

#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace ocl::ops {

constexpr bool vectors = true;

// A row that is an operator of PyTorch: nothing else is to be written for it (csrc/torch/aten/table_rows.cpp). `aten`:
// its name there where it is not the row's.
static constexpr ElementwiseRow of_kind(ElementwiseRow row, ElementwiseRow::Operator kind, const char* aten) {
  row.kind = kind;
  row.aten = aten ? aten : row.name;
  return row;
}
static constexpr ElementwiseRow floating(ElementwiseRow row, const char* aten = nullptr) {
  return of_kind(row, ElementwiseRow::Operator::floating, aten);
}
static constexpr ElementwiseRow wide_floating(ElementwiseRow row, const char* aten = nullptr) {
  return of_kind(row, ElementwiseRow::Operator::wide_floating, aten);
}
static constexpr ElementwiseRow same(ElementwiseRow row, const char* aten = nullptr) {
  return of_kind(row, ElementwiseRow::Operator::same, aten);
}

// name, inputs, real, integer ("-": none, null: same as real), complex (null: none), functions (null: none), vectors
static constexpr ElementwiseRow rows[] = {
    // ---- moving
    {"copy", 1, "a", nullptr, "a", nullptr, vectors},
    {"fill", 0, "s0", nullptr, "s0", nullptr, vectors},
    {"conj_copy", 1, "a", nullptr, "conj_of(a)", nullptr, vectors},
    {"conj_neg_copy", 1, "-a", nullptr, "-conj_of(a)", nullptr, vectors},
    {"where", 3, "(a != ZERO) ? b : c", nullptr, "(a.x != 0) ? b : c"},
    {"masked_fill", 2, "(b != ZERO) ? s0 : a", nullptr, "(b.x != 0) ? s0 : a"},

    // ---- arithmetic
    {"add", 2, "a + b", nullptr, "a + b", nullptr, vectors},
    {"add_relu", 2, "(a + s0 * b < ZERO) ? (T)0 : a + s0 * b", "-"},
    {"add_alpha", 2, "a + s0 * b", nullptr, "a + c_mul(s0, b)", nullptr, vectors},
    {"sub", 2, "a - b", nullptr, "a - b", nullptr, vectors},
    {"mul", 2, "a * b", nullptr, "c_mul(a, b)", nullptr, vectors},
    {"logical_mul", 2, "BOOL(a != ZERO && b != ZERO)"},
    {"div", 2, "a / b", "truncate_divide(a, b)", "c_div(a, b)", nullptr, vectors},
    {"div_trunc", 2, "TRUNC(a / b)", "truncate_divide(a, b)"},
    {"div_floor", 2, "floor_divide(a, b)", "integer_floor_divide(a, b)"},
    {"remainder", 2, "remainder_of(a, b)", "integer_remainder(a, b)"},
    {"fmod", 2, "fmod_of(a, b)", "truncate_modulo(a, b)"},
    {"pow", 2, "pow_of(a, b)", "integer_power(a, b)", "c_pow(a, b)"},
    {"pow_scalar", 1, "pow_of(a, (T)s0)", "integer_power(a, s0)", "c_pow(a, s0)"},
    {"pow_2", 1, "a * a", nullptr, "c_mul(a, a)", nullptr, vectors},
    {"pow_3", 1, "a * a * a", nullptr, "c_mul(c_mul(a, a), a)", nullptr, vectors},
    {"hypot", 2, "hypot(a, b)", "-"},
    {"atan2", 2, "atan2(a, b)", "-"},
    {"copysign", 2, "copy_sign(a, b)", "-"},
    {"nextafter", 2, "nextafter(a, b)", "-"},
    {"nextafter_bits", 2, nullptr, "next_after_bits(a, b, s0)"},  // of half types, s0: the bits of infinity
    {"gcd", 2, nullptr, "greatest_common_divisor(a, b)"},
    {"lcm", 2, nullptr, "least_common_multiple(a, b)"},
    {"heaviside", 2, "(a == ZERO) ? b : BOOL(a > ZERO)"},
    {"logaddexp", 2, "log_add_exp(a, b)", "-", "c_log_add_exp(a, b)"},
    {"logaddexp2", 2, "log_add_exp2(a, b)", "-"},
    {"maximum", 2, "MAXIMUM(a, b)", "(a > b) ? a : b"},
    {"minimum", 2, "MINIMUM(a, b)", "(a < b) ? a : b"},
    {"fmax", 2, "IS_NAN(a) ? b : (IS_NAN(b) || a > b) ? a : b", "(a > b) ? a : b"},
    {"fmin", 2, "IS_NAN(a) ? b : (IS_NAN(b) || a < b) ? a : b", "(a < b) ? a : b"},
    {"xlogy", 2, "IS_NAN(b) ? b : (a == ZERO) ? (T)0 : a * log_of(b)", "-"},
    {"xlog1py", 2, "IS_NAN(b) ? b : (a == ZERO) ? (T)0 : a * log1p_of(b)", "-"},
    {"ldexp", 2, "a * exp2_of(b)", "-"},
    {"addcmul", 3, "a + s0 * b * c", nullptr, "a + c_mul(c_mul(s0, b), c)", nullptr, vectors},
    {"addcdiv", 3, "a + s0 * (b / c)", "a + s0 * truncate_divide(b, c)", "a + c_mul(s0, c_div(b, c))", nullptr,
     vectors},
    {"lerp", 3, "(fabs(c) < (S)0.5) ? a + c * (b - a) : b - (b - a) * ((S)1 - c)", "-",
     "(c_abs(c) < (PART)0.5) ? a + c_mul(c, b - a) : b - c_mul(b - a, (T)(1, 0) - c)"},
    {"lerp_scalar", 2, "(fabs(s0) < (S)0.5) ? a + s0 * (b - a) : b - (b - a) * ((S)1 - s0)", "-",
     "(c_abs(s0) < (PART)0.5) ? a + c_mul(s0, b - a) : b - c_mul(b - a, (T)(1, 0) - s0)"},

    // ---- bits
    {"bitwise_and", 2, nullptr, "a & b"},
    {"bitwise_or", 2, nullptr, "a | b"},
    {"bitwise_xor", 2, nullptr, "a ^ b"},
    {"bitwise_not", 1, nullptr, "~a"},
    {"shift_left", 2, nullptr, "(b < ZERO || b >= (S)(8 * sizeof(S))) ? (T)0 : a << b"},
    {"shift_right", 2, nullptr, "(b < ZERO || b >= (S)(8 * sizeof(S))) ? ((a < ZERO) ? (T)-1 : (T)0) : a >> b"},

    // ---- comparisons and logic
    {"eq", 2, "BOOL(a == b)", nullptr, "C_BOOL(a.x == b.x && a.y == b.y)"},
    {"ne", 2, "BOOL(a != b)", nullptr, "C_BOOL(a.x != b.x || a.y != b.y)"},
    {"lt", 2, "BOOL(a < b)"},
    {"le", 2, "BOOL(a <= b)"},
    {"gt", 2, "BOOL(a > b)"},
    {"ge", 2, "BOOL(a >= b)"},
    {"logical_and", 2, "BOOL(a != ZERO && b != ZERO)", nullptr,
     "C_BOOL((a.x != 0 || a.y != 0) && (b.x != 0 || b.y != 0))"},
    {"logical_or", 2, "BOOL(a != ZERO || b != ZERO)", nullptr, "C_BOOL(a.x != 0 || a.y != 0 || b.x != 0 || b.y != 0)"},
    {"logical_xor", 2, "BOOL((a != ZERO) != (b != ZERO))", nullptr,
     "C_BOOL((a.x != 0 || a.y != 0) != (b.x != 0 || b.y != 0))"},
    {"logical_not", 1, "BOOL(a == ZERO)", nullptr, "C_BOOL(a.x == 0 && a.y == 0)"},
    {"isposinf", 1, "BOOL(a == (S)INFINITY)", "(T)0"},
    {"isneginf", 1, "BOOL(a == -(S)INFINITY)", "(T)0"},
    {"isnan", 1, "BOOL(IS_NAN(a))", "(T)0", "C_BOOL(IS_NAN(a.x) || IS_NAN(a.y))"},
    {"signbit", 1, "BOOL(sign_bit(a))", "BOOL(a < ZERO)"},

    // ---- unary
    {"abs", 1, "fabs(a)", "abs_of(a)", "C_REAL(c_abs(a))", nullptr, vectors},
    {"neg", 1, "-a", "(T)0 - a", "-a", nullptr, vectors},
    {"sign", 1, "IS_NAN(a) ? (T)0 : (a > ZERO) ? (T)1 : (a < ZERO) ? (T)-1 : (T)0",
     "(a > ZERO) ? (T)1 : (a < ZERO) ? (T)-1 : (T)0"},
    {"sgn", 1, "(a > ZERO) ? (T)1 : (a < ZERO) ? (T)-1 : (T)0", "(a > ZERO) ? (T)1 : (a < ZERO) ? (T)-1 : (T)0",
     "(a.x == 0 && a.y == 0) ? a : a / c_abs(a)"},
    {"angle", 1, "IS_NAN(a) ? a : (a < ZERO) ? (T)((S)3.14159265358979323846) : (T)0", "-",
     "C_REAL(atan2(C_IM(a), C_RE(a)))", nullptr, vectors},
    floating({"reciprocal", 1, "(S)1 / a", "-", "c_reciprocal(a)", nullptr, vectors}),
    floating({"sqrt", 1, "sqrt(a)", "-", "c_sqrt(a)"}),
    floating({"rsqrt", 1, "(S)1 / sqrt(a)", "-", "c_reciprocal(c_sqrt(a))"}),
    floating({"exp", 1, "exp_fast(a)", "-", "c_exp(a)"}),
    floating({"exp2", 1, "exp2_of(a)", "-", "c_exp(a * C_LN2)"}),
    floating({"expm1", 1, "expm1_fast(a)", "-", "c_expm1(a)"}),
    floating({"log", 1, "log_of(a)", "-", "c_log(a)"}),
    floating({"log2", 1, "log2_of(a)", "-", "c_log(a) / C_LN2"}),
    floating({"log10", 1, "log10_of(a)", "-", "c_log(a) / C_LN10"}),
    floating({"log1p", 1, "log1p_of(a)", "-", "c_log1p(a)"}),
    floating({"sin", 1, "sin_of(a)", "-", "c_sin(a)"}),
    floating({"cos", 1, "cos_of(a)", "-", "c_cos(a)"}),
    floating({"tan", 1, "tan_of(a)", "-", "c_tan(a)"}),
    floating({"asin", 1, "asin(a)", "-", "c_asin(a)"}),
    floating({"acos", 1, "acos(a)", "-", "c_acos(a)"}),
    floating({"atan", 1, "atan(a)", "-", "c_atan(a)"}),
    floating({"sinh", 1, "sinh(a)", "-", "c_sinh(a)"}),
    floating({"cosh", 1, "cosh(a)", "-", "c_cosh(a)"}),
    floating({"tanh", 1, "tanh_fast(a)", "-", "c_tanh(a)"}),
    floating({"asinh", 1, "asinh_of(a)", "-", "c_asinh(a)"}),
    floating({"acosh", 1, "acosh_of(a)", "-", "c_acosh(a)"}),
    floating({"atanh", 1, "atanh_of(a)", "-", "c_atanh(a)"}),
    floating({"erf", 1, "erf_fast(a)", "-"}),
    floating({"erfinv", 1, "erfinv_of(a)", "-"}),
    floating({"digamma", 1, "digamma_of(a)", "-"}),
    {"trigamma", 1, "trigamma_of(a)", "-"},
    wide_floating({"zeta", 2, "zeta_of(a, b)", "-"}, "special_zeta"),
    // (-1)^(n + 1) n! zeta(n + 1, a); s0 = n + 1, s1 = (-1)^(n + 1) n!
    {"polygamma", 1, "s1 * zeta_of(s0, a)", "-"},
    floating({"erfc", 1, "erfc_fast(a)", "-"}),
    floating({"lgamma", 1, "lgamma_of(a)", "-"}),
    floating({"sinc", 1, "(a == ZERO) ? (T)1 : sin_of((S)3.14159265358979323846 * a) / ((S)3.14159265358979323846 * a)",
              "-", "(a.x == 0 && a.y == 0) ? (T)(1, 0) : c_div(c_sin(C_PI * a), C_PI * a)"}),
    {"ceil", 1, "CEIL(a)", "a"},
    {"floor", 1, "FLOOR(a)", "a"},
    {"round", 1, "ROUND_EVEN(a)", "a"},
    {"trunc", 1, "TRUNC(a)", "a"},
    // s0 = 10^|decimals|
    {"round_decimals", 1, "ROUND_EVEN(a * s0) / s0", "-"},
    {"round_negative_decimals", 1, "ROUND_EVEN(a / s0) * s0", "-"},
    {"frac", 1, "a - TRUNC(a)", "-"},
    floating({"sigmoid", 1, "sigmoid_of(a)", "-", "c_reciprocal((T)(1, 0) + c_exp(-a))"}),
    {"logit", 1, "log_of(a / ((S)1 - a))", "-"},
    {"logit_eps", 1,
     "log_of(((a < s0) ? s0 : (a > (S)1 - s0) ? (S)1 - s0 : a) / ((S)1 - ((a < s0) ? s0 : (a > (S)1 - s0) ? (S)1 - s0 "
     ": a)))",
     "-"},
    {"nan_to_num", 1, "IS_NAN(a) ? s0 : (a == (S)INFINITY) ? s1 : (a == -(S)INFINITY) ? s2 : a", "a",
     "(T)(finite(a.x, s0.x, s1.x, s2.x), finite(a.y, s0.x, s1.x, s2.x))"},
    floating({"entr", 1, "IS_NAN(a) ? a : (a > ZERO) ? -a * log_of(a) : (a == ZERO) ? (T)0 : (T)(-INFINITY)", "-"},
             "special_entr"),

    // ---- special functions
    floating({"i0", 1, "i0_of(a)", "-", nullptr, "BESSEL", vectors}),
    floating({"i0e", 1, "i0e_of(a)", "-", nullptr, "BESSEL", vectors}, "special_i0e"),
    floating({"i1", 1, "i1_of(a)", "-", nullptr, "BESSEL", vectors}, "special_i1"),
    floating({"i1e", 1, "i1e_of(a)", "-", nullptr, "BESSEL", vectors}, "special_i1e"),
    // s0 = (length - 1) / 2, s1 = beta, s2 = exp(-beta) I0(beta)
    {"kaiser_window", 1, "kaiser_of(a, s0, s1, s2)", "-", nullptr, "BESSEL", vectors},
    wide_floating({"modified_bessel_i0", 1, "i0_of(a)", "-", nullptr, "BESSEL", vectors}, "special_modified_bessel_i0"),
    wide_floating({"modified_bessel_i1", 1, "i1_of(a)", "-", nullptr, "BESSEL", vectors}, "special_modified_bessel_i1"),
    wide_floating({"modified_bessel_k0", 1, "k0_of(a)", "-", nullptr, "BESSEL"}, "special_modified_bessel_k0"),
    wide_floating({"modified_bessel_k1", 1, "k1_of(a)", "-", nullptr, "BESSEL"}, "special_modified_bessel_k1"),
    wide_floating({"scaled_modified_bessel_k0", 1, "k0e_of(a)", "-", nullptr, "BESSEL"},
                  "special_scaled_modified_bessel_k0"),
    wide_floating({"scaled_modified_bessel_k1", 1, "k1e_of(a)", "-", nullptr, "BESSEL"},
                  "special_scaled_modified_bessel_k1"),
    wide_floating({"bessel_j0", 1, "bessel_j0_of(a)", "-", nullptr, "BESSEL"}, "special_bessel_j0"),
    wide_floating({"bessel_j1", 1, "bessel_j1_of(a)", "-", nullptr, "BESSEL"}, "special_bessel_j1"),
    wide_floating({"bessel_y0", 1, "bessel_y0_of(a)", "-", nullptr, "BESSEL"}, "special_bessel_y0"),
    wide_floating({"bessel_y1", 1, "bessel_y1_of(a)", "-", nullptr, "BESSEL"}, "special_bessel_y1"),
    wide_floating({"spherical_bessel_j0", 1, "spherical_bessel_j0_of(a)", "-", nullptr, "BESSEL"},
                  "special_spherical_bessel_j0"),
    wide_floating({"airy_ai", 1, "airy_ai_of(a)", "-", nullptr, "BESSEL"}, "special_airy_ai"),
    wide_floating({"erfcx", 1, "erfcx_of(a)", "-", nullptr, "NORMAL_DISTRIBUTION", vectors}, "special_erfcx"),
    wide_floating({"log_ndtr", 1, "log_ndtr_of(a)", "-", nullptr, "NORMAL_DISTRIBUTION", vectors}, "special_log_ndtr"),
    wide_floating({"ndtri", 1, "ndtri_of(a)", "-", nullptr, "NORMAL_DISTRIBUTION", vectors}, "special_ndtri"),
    wide_floating({"chebyshev_polynomial_t", 2, "chebyshev_t_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_chebyshev_polynomial_t"),
    wide_floating({"chebyshev_polynomial_u", 2, "chebyshev_u_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_chebyshev_polynomial_u"),
    wide_floating({"chebyshev_polynomial_v", 2, "chebyshev_v_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_chebyshev_polynomial_v"),
    wide_floating({"chebyshev_polynomial_w", 2, "chebyshev_w_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_chebyshev_polynomial_w"),
    wide_floating({"shifted_chebyshev_polynomial_t", 2, "chebyshev_t_of(a + a - (S)1, b)", "-", nullptr,
                   "ORTHOGONAL_POLYNOMIALS"},
                  "special_shifted_chebyshev_polynomial_t"),
    wide_floating({"shifted_chebyshev_polynomial_u", 2, "chebyshev_u_of(a + a - (S)1, b)", "-", nullptr,
                   "ORTHOGONAL_POLYNOMIALS"},
                  "special_shifted_chebyshev_polynomial_u"),
    wide_floating({"shifted_chebyshev_polynomial_v", 2, "chebyshev_v_of(a + a - (S)1, b)", "-", nullptr,
                   "ORTHOGONAL_POLYNOMIALS"},
                  "special_shifted_chebyshev_polynomial_v"),
    wide_floating({"shifted_chebyshev_polynomial_w", 2, "chebyshev_w_of(a + a - (S)1, b)", "-", nullptr,
                   "ORTHOGONAL_POLYNOMIALS"},
                  "special_shifted_chebyshev_polynomial_w"),
    wide_floating({"hermite_polynomial_h", 2, "hermite_h_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_hermite_polynomial_h"),
    wide_floating({"hermite_polynomial_he", 2, "hermite_he_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_hermite_polynomial_he"),
    wide_floating({"laguerre_polynomial_l", 2, "laguerre_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_laguerre_polynomial_l"),
    wide_floating({"legendre_polynomial_p", 2, "legendre_of(a, b)", "-", nullptr, "ORTHOGONAL_POLYNOMIALS"},
                  "special_legendre_polynomial_p"),
    floating({"igamma", 2, "igamma_of(a, b)", "-", nullptr, "INCOMPLETE_GAMMA"}),
    floating({"igammac", 2, "igammac_of(a, b)", "-", nullptr, "INCOMPLETE_GAMMA"}),
    // x = a 2^b with 0.5 <= |x| < 1: x, and b as a whole number
    {"frexp_mantissa", 1, "frexp_mantissa_of(a)", "-"},
    {"frexp_exponent", 1, "frexp_exponent_of(a)", "-"},

    // ---- clamping
    {"clamp", 1, "(a < s0) ? s0 : (a > s1) ? s1 : a", "(((a < s0) ? s0 : a) > s1) ? s1 : ((a < s0) ? s0 : a)"},
    {"clamp_min", 1, "(a < s0) ? s0 : a"},
    {"clamp_max", 1, "(a > s0) ? s0 : a"},
    {"clamp_tensor", 3, "IS_NAN(a) ? a : MINIMUM(MAXIMUM(a, b), c)"},
    {"relu", 1, "(a < ZERO) ? (T)0 : a"},
    {"threshold", 1, "(a <= s0) ? s1 : a"},
    {"threshold_backward", 2, "(a <= s0) ? (T)0 : b"},  // self, grad

    // ---- activations; backward rows take (grad, self or output) unless they say otherwise
    {"hardtanh_backward", 2, "(b <= s0 || b >= s1) ? (T)0 : a"},
    {"gelu", 1, "gelu_erf(a)", "-"},
    {"gelu_tanh", 1, "gelu_tanh(a)", "-"},
    {"gelu_backward", 2, "gelu_erf_backward(a, b)", "-"},
    {"gelu_tanh_backward", 2, "gelu_tanh_backward(a, b)", "-"},
    {"silu", 1, "a / ((S)1 + exp_fast(-a))", "-", "c_div(a, (T)(1, 0) + c_exp(-a))"},
    {"silu_mul", 2, "a / ((S)1 + exp_fast(-a)) * b", "-"},
    {"gelu_mul", 2, "gelu_erf(a) * b", "-"},
    {"gelu_tanh_mul", 2, "gelu_tanh(a) * b", "-"},
    {"silu_backward", 2, "silu_backward(a, b)", "-"},
    {"mish", 1, "a * tanh_fast(softplus_of(a))", "-"},
    {"mish_backward", 2,
     "a * (tanh_fast(softplus_of(b)) + b * sigmoid_of(b) * ((S)1 - tanh_fast(softplus_of(b)) * "
     "tanh_fast(softplus_of(b))))",
     "-"},
    // s0 = alpha * scale, s1 = scale, s2 = input_scale
    {"elu", 1, "(a <= ZERO) ? expm1_fast(a * s2) * s0 : a * s1", "-"},
    {"elu_backward", 2, "(b <= ZERO) ? a * s2 * s0 * exp_fast(b * s2) : a * s1", "-"},
    {"elu_backward_result", 2, "(b <= ZERO) ? a * s2 * (b + s0) : a * s1", "-"},
    {"leaky_relu", 1, "(a > ZERO) ? a : a * s0", "-"},
    {"leaky_relu_backward", 2, "(a > ZERO) ? b : b * s0", "-"},  // self, grad
    {"hardsigmoid", 1, "IS_NAN(a) ? a : ((a + (S)3 < 0) ? (T)0 : (a + (S)3 > (S)6) ? (T)6 : a + (S)3) / (S)6", "-"},
    {"hardsigmoid_backward", 2, "(b > (S)-3 && b < (S)3) ? a / (S)6 : (T)0", "-"},
    {"hardswish", 1, "a * ((a + (S)3 < 0) ? (T)0 : (a + (S)3 > (S)6) ? (T)6 : a + (S)3) / (S)6", "-"},
    {"hardswish_backward", 2, "(b <= (S)-3) ? (T)0 : (b < (S)3) ? a * (b / (S)3 + (S)0.5) : a", "-"},
    {"hardshrink", 1, "(a >= -s0 && a <= s0) ? (T)0 : a", "-"},
    {"softshrink", 1, "IS_NAN(a) ? a : (a > s0) ? a - s0 : (a < -s0) ? a + s0 : (T)0", "-"},
    {"shrink_backward", 2, "(b >= -s0 && b <= s0) ? (T)0 : a", "-"},
    // s0 = beta, s1 = threshold
    {"softplus", 1, "(a * s0 > s1) ? a : log1p_of(exp_fast(a * s0)) / s0", "-"},
    {"softplus_backward", 2, "(b * s0 > s1) ? a : a * exp_fast(b * s0) / (exp_fast(b * s0) + (S)1)", "-"},
    {"softsign", 1, "a / ((S)1 + fabs(a))", "-"},
    {"scale", 1, "a * s0", "-"},
    {"quantize", 1, "ROUND_EVEN(fma(a, (T)(s0), (T)(s1)))", "-"},  // s0 = 1 / scale, s1 = zero point
    // ONNX's: value or code, scale, zero point; s0 and s1 are the lowest and the highest code
    {"quantize_linear", 3, "fmin(fmax(ROUND_EVEN(a / b) + c, (T)(s0)), (T)(s1))", "-"},
    {"dequantize_linear", 3, "(a - c) * b", "-"},
    {"fake_quantize", 3, "(fmin(fmax(ROUND_EVEN(a / b) + c, (T)(s0)), (T)(s1)) - c) * b", "-"},
    // scale and zero point of bytes for numbers from a to b; for numbers from a in steps of b
    {"dynamic_scale", 2, "(fmax(b, ZERO) == fmin(a, ZERO)) ? (T)1 : (fmax(b, ZERO) - fmin(a, ZERO)) / (S)255", "-"},
    {"dynamic_zero_point", 2, "fmin(fmax(ROUND_EVEN(-fmin(a, ZERO) / b), ZERO), (T)255)", "-"},
    // clamp(a * s0 + s1, 0, 1)
    {"scale_clamp", 1, "(a * s0 + s1 < ZERO) ? (T)0 : (a * s0 + s1 > (S)1) ? (T)1 : a * s0 + s1", "-"},
    {"log_sigmoid", 1, "((a < ZERO) ? a : (T)0) - log1p_of(exp_fast(-fabs(a)))", "-"},
    {"log_sigmoid_backward", 2,
     "a * ((b < ZERO) ? (S)1 - exp_fast(b) / ((S)1 + exp_fast(b)) : exp_fast(-b) / ((S)1 + exp_fast(-b)))", "-"},
    {"sigmoid_backward", 2, "a * (((S)1 - b) * b)", "-", "c_mul(a, conj_of(c_mul(C_ONE - b, b)))", nullptr, vectors},
    {"tanh_backward", 2, "a * ((S)1 - b * b)", "-", "c_mul(a, conj_of(C_ONE - c_mul(b, b)))", nullptr, vectors},
    {"logit_backward", 2,
     "(b < ZERO || b > (S)1) ? (T)NAN : (b == ZERO || b == (S)1) ? a * (S)INFINITY : a / (b * ((S)1 - b))", "-"},
    {"logit_eps_backward", 2, "(b < s0 || b > (S)1 - s0) ? (T)0 : a / (b * ((S)1 - b))", "-"},
    {"glu", 2, "a * sigmoid_of(b)", "-"},
    {"prelu", 2, "(a > ZERO) ? a : a * b", "-"},                     // self, weight
    {"prelu_backward", 3, "(b > ZERO) ? a : a * c", "-"},            // grad, self, weight
    {"prelu_backward_weight", 2, "(b > ZERO) ? (T)0 : a * b", "-"},  // grad, self

    // ---- losses; backward rows take (grad, self, target)
    {"mse", 2, "(a - b) * (a - b)", "-"},
    {"mse_backward", 3, "s0 * (b - c) * a", "-"},
    {"smooth_l1", 2, "(fabs(a - b) < s0) ? (S)0.5 * (a - b) * (a - b) / s0 : fabs(a - b) - (S)0.5 * s0", "-"},
    // s0 = norm, s1 = beta
    {"smooth_l1_backward", 3, "(b - c <= -s1) ? -s0 * a : (b - c >= s1) ? s0 * a : s0 * (b - c) * a / s1", "-"},
    {"huber", 2, "(fabs(a - b) <= s0) ? (S)0.5 * (a - b) * (a - b) : s0 * (fabs(a - b) - (S)0.5 * s0)", "-"},
    // s0 = norm, s1 = delta
    {"huber_backward", 3, "(b - c <= -s1) ? -s0 * a * s1 : (b - c >= s1) ? s0 * a * s1 : s0 * (b - c) * a", "-"},
    {"binary_cross_entropy", 2, "(b - (S)1) * CLAMP_LOG(log1p_of(-a)) - b * CLAMP_LOG(log_of(a))",
     "-"},  // input, target
    {"binary_cross_entropy_backward", 3, "a * (b - c) / ((((S)1 - b) * b < (S)1e-12) ? (T)1e-12 : ((S)1 - b) * b)",
     "-"},  // grad, input, target

    // ---- complex parts
    {"complex", 2, nullptr, "-", "c_join(a, b)", nullptr, vectors},
    {"polar_real", 2, "a * cos_of(b)", "-"},
    {"polar_imaginary", 2, "a * sin_of(b)", "-"},
};

std::span<const ElementwiseRow> elementwise_table() { return rows; }

const ElementwiseRow& elementwise_row(const char* name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const ElementwiseRow*> map;
    for (const ElementwiseRow& row : rows) map.emplace(row.name, &row);
    return map;
  }();
  if (const auto found = by_name.find(name); found != by_name.end()) return *found->second;
  throw InvalidArgument(std::string("there is no elementwise operator ") + name);
}

}  // namespace ocl::ops
