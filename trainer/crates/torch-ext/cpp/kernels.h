// Row kernels of the fused operations: plain loops that the compiler vectorizes, with no torch header.
// T is the stored type; sums and transcendental functions are in Acc<T>.
#pragma once
#include <cstdint>
#include <cstring>

struct bf16 {
  uint16_t bits;
};

template <class T> struct AccOf { using type = T; };
template <> struct AccOf<bf16> { using type = float; };
template <class T> using Acc = typename AccOf<T>::type;

static inline float load(bf16 value) {
  uint32_t bits = uint32_t(value.bits) << 16;
  float out;
  memcpy(&out, &bits, 4);
  return out;
}
static inline float load(float value) { return value; }
static inline double load(double value) { return value; }

// Rounds to nearest even; a NaN stays one.
static inline void store(bf16* to, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to->bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : uint16_t(rounded);
}
static inline void store(float* to, float value) { *to = value; }
static inline void store(double* to, double value) { *to = value; }

// One clone a CPU generation, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MULTI_TARGET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MULTI_TARGET
#endif

// The kernels for one stored type; `rows` consecutive rows each.
template <class T>
struct Kernels {
  using A = Acc<T>;
  // y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps)
  void (*rms_norm)(const T* x, const A* w, A eps, int64_t rows, int64_t n, T* y, A* rstd);
  void (*rms_norm_backward)(const T* dy, const T* x, const A* w, const A* rstd, int64_t rows, int64_t n, T* dx);
  // Adds the rows' part of the weight's gradient to dw.
  void (*rms_norm_weight)(const T* dy, const T* x, const A* rstd, int64_t rows, int64_t n, A* dw);
  // sign -1 rotates back.
  void (*rotate)(const T* x, const A* cos, const A* sin, A sign, int64_t rows, int64_t heads, int64_t half, T* y);
  void (*swiglu)(const T* gate, const T* up, int64_t n, T* y);
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup);
};

template <class T>
const Kernels<T>& kernels();
