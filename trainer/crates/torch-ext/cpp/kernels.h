// The row kernels of the fused operations, with no torch header. kernels.cpp is compiled once a CPU generation; the best
// one that the machine has is chosen when the program runs.
#pragma once
#include <stdint.h>

struct bf16 {
  uint16_t bits;
};

// Sums and transcendental functions are in Acc<T>.
template <class T> struct AccOf { using type = T; };
template <> struct AccOf<bf16> { using type = float; };
template <class T> using Acc = typename AccOf<T>::type;

// One head of one segment: `length` rows each, `*_stride` elements apart.
template <class T>
struct Head {
  const T *q, *k, *v;
  int64_t q_stride, kv_stride, length, dim;
  Acc<T> scale;
  Acc<T>* work;  // attention_work() numbers
};

// The kernels for one stored type; row kernels take consecutive rows of `n` elements.
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
  // loss = lse - x[label]; a negative label gives 0.
  void (*cross_entropy)(const T* x, const int64_t* labels, int64_t rows, int64_t n, A* loss, A* lse);
  void (*cross_entropy_backward)(const T* x, const int64_t* labels, const A* lse, const A* dloss, int64_t rows, int64_t n,
                                 T* dx);
  // Causal attention; `lse` has `length` numbers.
  void (*attention)(const Head<T>& head, T* o, A* lse);
  // dk and dv are `length` x `dim` without gaps, to be summed over the heads of a group.
  void (*attention_backward)(const Head<T>& head, const T* o, const T* d_o, const A* lse, T* dq, A* dk, A* dv);
  int64_t (*attention_work)(int64_t length, int64_t dim);
};

namespace base { template <class T> const Kernels<T>& kernels(); }
#if defined(__x86_64__)
namespace v3 { template <class T> const Kernels<T>& kernels(); }
namespace v4 { template <class T> const Kernels<T>& kernels(); }
#endif

template <class T>
const Kernels<T>& kernels() {
#if defined(__x86_64__)
  static const int level = __builtin_cpu_supports("x86-64-v4") ? 4 : __builtin_cpu_supports("x86-64-v3") ? 3 : 1;
  if (level == 4) return v4::kernels<T>();
  if (level == 3) return v3::kernels<T>();
#endif
  return base::kernels<T>();
}
