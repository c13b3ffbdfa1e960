// The element-wise rows and the tables of kernels a type.
#pragma GCC optimize("-fno-math-errno", "-fno-trapping-math")
#include "kernels.h"

#include <cmath>

#include "norm_kernels.h"

// e^x within 2 ulp for finite results; clamped where float ends. Vectorizes, unlike the library's.
static inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = std::floor(x * 1.44269504f + 0.5f);
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t bits = (int32_t(n) + 127) << 23;
  float scale;
  memcpy(&scale, &bits, 4);
  return p * scale;
}
static inline double exponential(double x) { return std::exp(x); }

#define T float
#define A float
#define NAME(f) f##_f32
#include "elementwise_kernels.inc"
#undef T
#undef NAME
#define T bf16
#define NAME(f) f##_bf16
#include "elementwise_kernels.inc"
#undef T
#undef A
#undef NAME
#define T double
#define A double
#define NAME(f) f##_f64
#include "elementwise_kernels.inc"
