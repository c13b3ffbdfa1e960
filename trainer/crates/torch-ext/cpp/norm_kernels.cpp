// RMS norm's rows. Compiled with reassociation of sums, which its reductions need to be vectorized.
#pragma GCC optimize("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")
#include <cmath>

#include "norm_kernels.h"

#define T float
#define A float
#define NAME(f) f##_f32
#include "norm_kernels.inc"
#undef T
#undef NAME
#define T bf16
#define NAME(f) f##_bf16
#include "norm_kernels.inc"
#undef T
#undef A
#undef NAME
#define T double
#define A double
#define NAME(f) f##_f64
#include "norm_kernels.inc"
