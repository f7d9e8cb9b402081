"""Writes kernels_cl/common/chebyshev_tables.clh: Chebyshev coefficients of the special functions in bessel.clh and
normal_distribution.clh.

    python tools/chebyshev_tables.py          # needs mpmath

Each row is a smooth function of t in [-1, 1]: a special function with its growth, its logarithm or its phase taken off.
Coefficients come from interpolation at 96 Chebyshev nodes with 50 digits; a table ends where its coefficients no longer
count in float64, and says how many count in float32.
"""

from pathlib import Path

from mpmath import airyai, airybi, besseli, besselj, besselk, bessely, cos, erfc, exp, log, mp, mpf, pi, sin, sqrt

TARGET = Path(__file__).parents[1] / "kernels_cl" / "common" / "chebyshev_tables.clh"
NODES = 96
mp.dps = 50

small = lambda f: lambda t: f(4 * (t + 1))  # x in [0, 8], t = x / 4 - 1
large = lambda f: lambda t: f(16 / (t + 1))  # x in [8, inf), t = 16 / x - 1
squared = lambda f: lambda t: f(sqrt(32 * (t + 1)))  # x in [0, 8], t = x^2 / 32 - 1
inverse = lambda f: lambda t: f(sqrt(128 / (t + 1)))  # x in [8, inf), t = 128 / x^2 - 1
low = lambda f: lambda t: f(sqrt(2 * (t + 1)))  # x in [0, 2], t = x^2 / 2 - 1
high = lambda f: lambda t: f(4 / (t + 1))  # x in [2, inf), t = 4 / x - 1


def modulus(order, x):
    """P and Q of J = sqrt(2 / (pi x)) (P cos c - Q sin c), Y = sqrt(2 / (pi x)) (P sin c + Q cos c), c = x - (2 order +
    1) pi / 4."""
    c, j, y, scale = x - (2 * order + 1) * pi / 4, besselj(order, x), bessely(order, x), sqrt(pi * x / 2)
    return scale * (j * cos(c) + y * sin(c)), scale * (y * cos(c) - j * sin(c))


ZETA = mpf(2) / 3 * mpf(2) ** mpf("1.5")


def airy_parts(t):
    """P and Q of Ai(-x) = (P cos c + Q sin c) / (sqrt(pi) x^(1/4)), c = zeta - pi / 4, zeta = 2/3 x^(3/2), t = 2 (ZETA
    / zeta)^2 - 1."""
    zeta = ZETA / sqrt((t + 1) / 2)
    x, c = (mpf(3) / 2 * zeta) ** (mpf(2) / 3), zeta - pi / 4
    a, b, scale = airyai(-x), airybi(-x), sqrt(pi) * x ** mpf("0.25")
    return scale * (a * cos(c) - b * sin(c)), scale * (a * sin(c) + b * cos(c)) * zeta / ZETA


def airy_decay(t):
    zeta = ZETA / ((t + 1) / 2)
    x = (mpf(3) / 2 * zeta) ** (mpf(2) / 3)
    return airyai(x) * exp(zeta) * 2 * sqrt(pi) * x ** mpf("0.25")


def erfcx_slope(t):
    x = mpf("3.75") * (1 + t) / (1 - t)
    return (1 + 2 * x) * exp(x * x) * erfc(x)


ROWS = {
    "i0e_small": (small(lambda x: exp(-x) * besseli(0, x)), "exp(-x) I0(x), t = x / 4 - 1"),
    "i0e_large": (large(lambda x: exp(-x) * sqrt(x) * besseli(0, x)), "exp(-x) sqrt(x) I0(x), t = 16 / x - 1"),
    "i1e_small": (small(lambda x: exp(-x) * besseli(1, x) / x), "exp(-x) I1(x) / x, t = x / 4 - 1"),
    "i1e_large": (large(lambda x: exp(-x) * sqrt(x) * besseli(1, x)), "exp(-x) sqrt(x) I1(x), t = 16 / x - 1"),
    "k0_small": (
        low(lambda x: besselk(0, x) + log(x / 2) * besseli(0, x)),
        "K0(x) + log(x / 2) I0(x), t = x^2 / 2 - 1",
    ),
    "k0e_large": (high(lambda x: exp(x) * sqrt(x) * besselk(0, x)), "exp(x) sqrt(x) K0(x), t = 4 / x - 1"),
    "k1_small": (
        low(lambda x: x * (besselk(1, x) - log(x / 2) * besseli(1, x))),
        "x (K1(x) - log(x / 2) I1(x)), t = x^2 / 2 - 1",
    ),
    "k1e_large": (high(lambda x: exp(x) * sqrt(x) * besselk(1, x)), "exp(x) sqrt(x) K1(x), t = 4 / x - 1"),
    "j0_small": (squared(lambda x: besselj(0, x)), "J0(x), t = x^2 / 32 - 1"),
    "j1_small": (squared(lambda x: besselj(1, x) / x), "J1(x) / x, t = x^2 / 32 - 1"),
    "y0_small": (
        squared(lambda x: bessely(0, x) - 2 / pi * log(x) * besselj(0, x)),
        "Y0(x) - 2/pi log(x) J0(x), t = x^2 / 32 - 1",
    ),
    "y1_small": (
        squared(lambda x: (bessely(1, x) - 2 / pi * (log(x) * besselj(1, x) - 1 / x)) / x),
        "(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x, t = x^2 / 32 - 1",
    ),
    "p0_large": (inverse(lambda x: modulus(0, x)[0]), "P of J0 and Y0, t = 128 / x^2 - 1"),
    "q0_large": (inverse(lambda x: modulus(0, x)[1] * x / 8), "Q x / 8 of J0 and Y0"),
    "p1_large": (inverse(lambda x: modulus(1, x)[0]), "P of J1 and Y1"),
    "q1_large": (inverse(lambda x: modulus(1, x)[1] * x / 8), "Q x / 8 of J1 and Y1"),
    "airy_middle": (lambda t: airyai(2 * t), "Ai(x), t = x / 2"),
    "airy_decay": (airy_decay, "Ai(x) exp(zeta) 2 sqrt(pi) x^(1/4), zeta = 2/3 x^(3/2), x >= 2, t = 2 ZETA / zeta - 1"),
    "airy_cosine": (lambda t: airy_parts(t)[0], "P of Ai(-x), x >= 2, t = 2 (ZETA / zeta)^2 - 1"),
    "airy_sine": (lambda t: airy_parts(t)[1], "Q zeta / ZETA of Ai(-x)"),
    "erfcx_slope": (erfcx_slope, "(1 + 2 x) exp(x^2) erfc(x), t = (x - 3.75) / (x + 3.75)"),
}


def coefficients(function):
    values = [function(cos(pi * (k + mpf(1) / 2) / NODES)) for k in range(NODES)]
    return [
        (1 if j == 0 else 2) * sum(v * cos(pi * j * (k + mpf(1) / 2) / NODES) for k, v in enumerate(values)) / NODES
        for j in range(NODES)
    ]


def terms(series, epsilon):
    """How many coefficients are needed for an error of epsilon times the largest one."""
    limit = epsilon * max(abs(c) for c in series)
    return next(n for n in range(1, len(series) + 1) if sum(abs(c) for c in series[n:]) < limit)


def main():
    lines = [
        "// Generated by tools/chebyshev_tables.py: do not edit. Chebyshev coefficients; NAME_TERMS is how many of "
        "them S needs.",
        "#ifndef OCL_CHEBYSHEV_TABLES_CLH",
        "#define OCL_CHEBYSHEV_TABLES_CLH",
        "",
    ]
    for name, (function, formula) in ROWS.items():
        series = coefficients(function)
        count, few = terms(series, mpf(10) ** -17), terms(series, mpf(10) ** -8)
        assert count < NODES - 8, (name, count)
        lines.append(f"// {formula}")
        lines.append(f"#define {name.upper()}_TERMS (sizeof(S) == 4 ? {few} : {count})")
        numbers = [f"(S){mp.nstr(c, 20)}" for c in series[:count]]
        lines.append(f"__constant S {name}_table[] = {{")
        lines += ["    " + ", ".join(numbers[i : i + 5]) + "," for i in range(0, count, 5)]
        lines.append("};")
        print(name, few, count)
    lines += ["", "#endif", ""]
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
