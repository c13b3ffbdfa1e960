// Norm, rotation, gate and loss. Compiled once a CPU generation with VARIANT set to its namespace.
#include "attention.h"
#include "vector.h"

namespace VARIANT {

template <class T> static void rms_norm(const T* x, const Acc<T>* w, Acc<T> eps, int64_t rows, int64_t n, T* y, Acc<T>* rstd) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, x += n, y += n) {
    Vec<A> squares{};
    const auto add = [&](Vec<A> v) { squares += v * v; };
    each<A>(n, [&](int64_t i) { add(load(x + i)); }, [&](int64_t i, int64_t c) { add(load_some(x + i, c)); });
    const A scale = A(1) / A(__builtin_sqrt(sum<A>(squares) / A(n) + eps));
    rstd[r] = scale;
    each<A>(
        n, [&](int64_t i) { store(y + i, load(x + i) * scale * load(w + i)); },
        [&](int64_t i, int64_t c) { store_some(y + i, load_some(x + i, c) * scale * load_some(w + i, c), c); });
  }
}

template <class T> static void rms_norm_backward(const T* dy, const T* x, const Acc<T>* w, const Acc<T>* rstd, int64_t rows,
                                                 int64_t n, T* dx) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
    const A scale = rstd[r];
    Vec<A> products{};
    each<A>(
        n, [&](int64_t i) { products += load(dy + i) * load(w + i) * load(x + i); },
        [&](int64_t i, int64_t c) { products += load_some(dy + i, c) * load_some(w + i, c) * load_some(x + i, c); });
    const A back = sum<A>(products) * scale * scale * scale / A(n);
    each<A>(
        n, [&](int64_t i) { store(dx + i, load(dy + i) * load(w + i) * scale - load(x + i) * back); },
        [&](int64_t i, int64_t c) {
          store_some(dx + i, load_some(dy + i, c) * load_some(w + i, c) * scale - load_some(x + i, c) * back, c);
        });
  }
}

template <class T> static void rms_norm_weight(const T* dy, const T* x, const Acc<T>* rstd, int64_t rows, int64_t n, Acc<T>* dw) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, x += n, dy += n) {
    const A scale = rstd[r];
    each<A>(
        n, [&](int64_t i) { store(dw + i, load(dw + i) + load(dy + i) * load(x + i) * scale); },
        [&](int64_t i, int64_t c) {
          store_some(dw + i, load_some(dw + i, c) + load_some(dy + i, c) * load_some(x + i, c) * scale, c);
        });
  }
}

template <class T> static void rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> sign, int64_t rows, int64_t heads,
                                      int64_t half, T* y) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, cos += half, sin += half) {
    for (int64_t h = 0; h < heads; h++, x += 2 * half, y += 2 * half) {
      each<A>(
          half,
          [&](int64_t i) {
            const Vec<A> first = load(x + i), second = load(x + i + half), c = load(cos + i), s = load(sin + i) * sign;
            store(y + i, first * c - second * s);
            store(y + i + half, second * c + first * s);
          },
          [&](int64_t i, int64_t count) {
            for (; count > 0; i++, count--) {
              const A first = load_one(x + i), second = load_one(x + i + half), c = cos[i], s = sin[i] * sign;
              store_one(y + i, first * c - second * s);
              store_one(y + i + half, second * c + first * s);
            }
          });
    }
  }
}

template <class T> static void swiglu(const T* gate, const T* up, int64_t n, T* y) {
  using A = Acc<T>;
  const auto value = [](Vec<A> g, Vec<A> u) { return g / (A(1) + exponential(-g)) * u; };
  each<A>(
      n, [&](int64_t i) { store(y + i, value(load(gate + i), load(up + i))); },
      [&](int64_t i, int64_t c) { store_some(y + i, value(load_some(gate + i, c), load_some(up + i, c)), c); });
}

template <class T> static void swiglu_backward(const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup) {
  using A = Acc<T>;
  const auto value = [](Vec<A> d, Vec<A> g, Vec<A> u, Vec<A>& dg, Vec<A>& du) {
    const Vec<A> s = A(1) / (A(1) + exponential(-g));
    du = d * g * s;
    dg = d * u * (s * (A(1) + g * (A(1) - s)));
  };
  each<A>(
      n,
      [&](int64_t i) {
        Vec<A> dg, du;
        value(load(dy + i), load(gate + i), load(up + i), dg, du);
        store(dgate + i, dg);
        store(dup + i, du);
      },
      [&](int64_t i, int64_t c) {
        Vec<A> dg, du;
        value(load_some(dy + i, c), load_some(gate + i, c), load_some(up + i, c), dg, du);
        store_some(dgate + i, dg, c);
        store_some(dup + i, du, c);
      });
}

template <class T> static void cross_entropy(const T* x, const int64_t* labels, int64_t rows, int64_t n, Acc<T>* loss, Acc<T>* lse) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, x += n) {
    loss[r] = lse[r] = 0;
    if (labels[r] < 0) continue;
    // A row shorter than a vector repeats its first element: that changes no maximum.
    Vec<A> largest = Vec<A>{} + load_one(x);
    const auto keep = [&](Vec<A> v) { largest = v > largest ? v : largest; };
    int64_t whole = n / WIDTH<A> * WIDTH<A>;
    A top;
    for (int64_t i = 0; i < whole; i += WIDTH<A>) keep(load(x + i));
    top = maximum<A>(largest);
    for (int64_t i = whole; i < n; i++) top = load_one(x + i) > top ? load_one(x + i) : top;
    Vec<A> total{};
    for (int64_t i = 0; i < whole; i += WIDTH<A>) total += exponential(load(x + i) - top);
    A all = sum<A>(total);
    for (int64_t i = whole; i < n; i++) all += exponential(Vec<A>{} + (load_one(x + i) - top))[0];
    lse[r] = top + A(__builtin_log(all));
    loss[r] = lse[r] - load_one(x + labels[r]);
  }
}

template <class T> static void cross_entropy_backward(const T* x, const int64_t* labels, const Acc<T>* lse, const Acc<T>* dloss,
                                                      int64_t rows, int64_t n, T* dx) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; r++, x += n, dx += n) {
    if (labels[r] < 0) {
      __builtin_memset(dx, 0, n * sizeof(T));
      continue;
    }
    const A shift = lse[r], factor = dloss[r];
    each<A>(
        n, [&](int64_t i) { store(dx + i, exponential(load(x + i) - shift) * factor); },
        [&](int64_t i, int64_t c) { store_some(dx + i, exponential(load_some(x + i, c) - shift) * factor, c); });
    // Not the rounded value minus one: that would lose the digits of a probability near 1.
    const A own = exponential(Vec<A>{} + (load_one(x + labels[r]) - shift))[0];
    store_one(dx + labels[r], (own - A(1)) * factor);
  }
}

template <class T> const Kernels<T>& kernels() {
  static const Kernels<T> table{rms_norm<T>,  rms_norm_backward<T>, rms_norm_weight<T>, rotate<T>,
                                swiglu<T>,    swiglu_backward<T>,   cross_entropy<T>,   cross_entropy_backward<T>,
                                attention<T>, attention_backward<T>, attention_work<T>};
  return table;
}
template const Kernels<float>& kernels<float>();
template const Kernels<bf16>& kernels<bf16>();
template const Kernels<double>& kernels<double>();

}  // namespace VARIANT
