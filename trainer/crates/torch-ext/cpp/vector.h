// 64-byte vectors in GCC's and Clang's generic form, and what the kernels do with them. Only builtins: an inline function of
// the standard library compiled for a newer CPU could be picked by the linker for all of the program.
#pragma once
#include "kernels.h"

namespace VARIANT {

typedef float VecF __attribute__((vector_size(64)));
typedef double VecD __attribute__((vector_size(64)));
typedef int32_t VecI __attribute__((vector_size(64)));
typedef uint32_t VecU __attribute__((vector_size(64)));
typedef uint16_t VecH __attribute__((vector_size(32)));

template <class A> struct VecOf;
template <> struct VecOf<float> { using type = VecF; };
template <> struct VecOf<double> { using type = VecD; };
template <class A> using Vec = typename VecOf<A>::type;
template <class A> constexpr int64_t WIDTH = 64 / sizeof(A);

template <class V, class P> static inline V raw_load(const P* from) {
  V out;
  __builtin_memcpy(&out, from, sizeof(V));
  return out;
}
static inline VecF load(const float* from) { return raw_load<VecF>(from); }
static inline VecD load(const double* from) { return raw_load<VecD>(from); }
static inline VecF load(const bf16* from) {
  return (VecF)(__builtin_convertvector(raw_load<VecH>(from), VecU) << 16);
}
static inline void store(float* to, VecF value) { __builtin_memcpy(to, &value, 64); }
static inline void store(double* to, VecD value) { __builtin_memcpy(to, &value, 64); }
// Rounds to nearest even; a NaN stays one.
static inline void store(bf16* to, VecF value) {
  const VecU bits = (VecU)value;
  VecU rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  rounded = value == value ? rounded : VecU{} + 0x7fc0;
  const VecH half = __builtin_convertvector(rounded, VecH);
  __builtin_memcpy(to, &half, 32);
}

static inline float load_one(const bf16* from) {
  const uint32_t bits = uint32_t(from->bits) << 16;
  float out;
  __builtin_memcpy(&out, &bits, 4);
  return out;
}
static inline float load_one(const float* from) { return *from; }
static inline double load_one(const double* from) { return *from; }
static inline void store_one(bf16* to, float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  to->bits = value == value ? uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) : 0x7fc0;
}
static inline void store_one(float* to, float value) { *to = value; }
static inline void store_one(double* to, double value) { *to = value; }

// The first `count` elements, zeros behind them.
template <class T> static inline Vec<Acc<T>> load_some(const T* from, int64_t count) {
  T padded[WIDTH<Acc<T>>] = {};
  __builtin_memcpy(padded, from, count * sizeof(T));
  return load(padded);
}
template <class T> static inline void store_some(T* to, Vec<Acc<T>> value, int64_t count) {
  T padded[WIDTH<Acc<T>>];
  store(padded, value);
  __builtin_memcpy(to, padded, count * sizeof(T));
}

template <class A> static inline A sum(Vec<A> value) {
  A out = 0;
  for (int64_t i = 0; i < WIDTH<A>; i++) out += value[i];
  return out;
}
template <class A> static inline A maximum(Vec<A> value) {
  A out = value[0];
  for (int64_t i = 1; i < WIDTH<A>; i++) out = value[i] > out ? value[i] : out;
  return out;
}

// e^x within 2 ulp; 0 below float's range, held at its end above. A NaN stays one.
static inline VecF exponential(VecF x) {
  const VecF low = VecF{} - 87.0f, high = VecF{} + 88.0f;
  VecF held = x < low ? low : x;
  held = held > high ? high : held;
  const VecF magic = VecF{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const VecF n = (held * 1.44269504f + magic) - magic;
  const VecF r = (held - n * 0.693359375f) - n * -2.12194440e-4f;
  VecF p = VecF{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const VecF scale = (VecF)((__builtin_convertvector(n, VecI) + 127) << 23);
  return x < low ? VecF{} : p * scale;
}
static inline VecD exponential(VecD x) {
  VecD out;
  for (int64_t i = 0; i < WIDTH<double>; i++) out[i] = __builtin_exp(x[i]);
  return out;
}

// Calls `full(i)` for whole vectors and `part(i, count)` for the rest.
template <class A, class F, class P> static inline void each(int64_t n, F&& full, P&& part) {
  int64_t i = 0;
  for (; i + WIDTH<A> <= n; i += WIDTH<A>) full(i);
  if (i < n) part(i, n - i);
}

}  // namespace VARIANT
