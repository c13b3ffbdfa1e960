// Causal attention of one head over one segment, in blocks of queries and keys: no matrix of all scores is ever made.
// Products run in Acc<T> on copies that are padded to whole tiles, so the tile kernel has no edges.
#pragma once
#include "vector.h"

namespace VARIANT {

constexpr int64_t QUERIES = 64, KEYS = 64, TILE_ROWS = 8;
template <class A> constexpr int64_t TILE_COLUMNS = 2 * WIDTH<A>;

static inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// C (+)= A B. A's element (m, k) is at a[m * row + k * column]; B and C are row-major. `rows` and `columns` are whole tiles.
template <class A, bool ADD>
static inline void multiply(int64_t rows, int64_t columns, int64_t inner, const A* a, int64_t row, int64_t column, const A* b,
                            int64_t b_stride, A* c, int64_t c_stride) {
  using V = Vec<A>;
  for (int64_t n = 0; n < columns; n += TILE_COLUMNS<A>) {
    for (int64_t m = 0; m < rows; m += TILE_ROWS) {
      V left[TILE_ROWS], right[TILE_ROWS];
#pragma GCC unroll 8
      for (int64_t i = 0; i < TILE_ROWS; i++) {
        left[i] = ADD ? load(c + (m + i) * c_stride + n) : V{};
        right[i] = ADD ? load(c + (m + i) * c_stride + n + WIDTH<A>) : V{};
      }
      const A* from = a + m * row;
      const A* with = b + n;
      for (int64_t k = 0; k < inner; k++, from += column, with += b_stride) {
        const V first = load(with), second = load(with + WIDTH<A>);
#pragma GCC unroll 8
        for (int64_t i = 0; i < TILE_ROWS; i++) {
          const A factor = from[i * row];
          left[i] += factor * first;
          right[i] += factor * second;
        }
      }
#pragma GCC unroll 8
      for (int64_t i = 0; i < TILE_ROWS; i++) {
        store(c + (m + i) * c_stride + n, left[i]);
        store(c + (m + i) * c_stride + n + WIDTH<A>, right[i]);
      }
    }
  }
}

// Copies rows times `scale` into rows of `stride`, zeros around them.
template <class T> static inline void gather(const T* from, int64_t from_stride, int64_t rows, int64_t all_rows, int64_t dim,
                                             int64_t stride, Acc<T> scale, Acc<T>* to) {
  using A = Acc<T>;
  for (int64_t r = 0; r < all_rows; r++, to += stride) {
    __builtin_memset(to, 0, stride * sizeof(A));
    if (r >= rows) continue;
    const T* x = from + r * from_stride;
    each<A>(
        dim, [&](int64_t i) { store(to + i, load(x + i) * scale); },
        [&](int64_t i, int64_t c) { store_some(to + i, load_some(x + i, c) * scale, c); });
  }
}

// Copies rows into columns: to[i * stride + r] = from[r][i].
template <class T> static inline void gather_transposed(const T* from, int64_t from_stride, int64_t rows, int64_t dim,
                                                        int64_t stride, Acc<T>* to) {
  constexpr int64_t STEP = 16;
  __builtin_memset(to, 0, dim * stride * sizeof(Acc<T>));
  for (int64_t r = 0; r < rows; r += STEP) {
    const int64_t end = r + STEP < rows ? r + STEP : rows;
    for (int64_t i = 0; i < dim; i++) {
      for (int64_t s = r; s < end; s++) to[i * stride + s] = load_one(from + s * from_stride + i);
    }
  }
}

// Work: K^T, V (or V^T), K; a block's Q, dO, scores, their gradient, output; dK, dV. Enough for both directions.
template <class T> static int64_t attention_work(int64_t length, int64_t dim) {
  const int64_t keys = round_up(length, KEYS), width = round_up(dim, TILE_COLUMNS<Acc<T>>);
  return 2 * dim * keys + 3 * keys * width + QUERIES * (3 * width + 2 * KEYS);
}

template <class A> static inline A* take(A*& work, int64_t count) {
  A* out = work;
  work += count;
  return out;
}

template <class T> static void attention(const Head<T>& head, T* o, Acc<T>* lse) {
  using A = Acc<T>;
  using V = Vec<A>;
  const int64_t dim = head.dim, keys = round_up(head.length, KEYS), width = round_up(dim, TILE_COLUMNS<A>);
  A* work = head.work;
  A *k_t = take(work, dim * keys), *v = take(work, keys * width), *q = take(work, QUERIES * width);
  A *p = take(work, QUERIES * KEYS), *out = take(work, QUERIES * width);
  gather_transposed(head.k, head.kv_stride, head.length, dim, keys, k_t);
  gather(head.v, head.kv_stride, head.length, keys, dim, width, A(1), v);
  for (int64_t begin = 0; begin < head.length; begin += QUERIES) {
    const int64_t rows = head.length - begin < QUERIES ? head.length - begin : QUERIES;
    gather(head.q + begin * head.q_stride, head.q_stride, rows, QUERIES, dim, width, head.scale, q);
    __builtin_memset(out, 0, QUERIES * width * sizeof(A));
    A top[QUERIES], total[QUERIES];
    for (int64_t r = 0; r < QUERIES; r++) top[r] = -A(1e30), total[r] = 0;
    for (int64_t first = 0; first < begin + rows; first += KEYS) {
      multiply<A, false>(QUERIES, KEYS, dim, q, width, 1, k_t + first, keys, p, KEYS);
      for (int64_t r = 0; r < rows; r++) {
        A* row = p + r * KEYS;
        for (int64_t c = begin + r - first + 1 > 0 ? begin + r - first + 1 : 0; c < KEYS; c++) row[c] = -A(1e30);
        V largest = V{} + top[r];
        for (int64_t c = 0; c < KEYS; c += WIDTH<A>) {
          const V x = load(row + c);
          largest = x > largest ? x : largest;
        }
        const A now = maximum<A>(largest), fade = exponential(V{} + (top[r] - now))[0];
        V added{};
        for (int64_t c = 0; c < KEYS; c += WIDTH<A>) {
          const V e = exponential(load(row + c) - now);
          store(row + c, e);
          added += e;
        }
        total[r] = total[r] * fade + sum<A>(added);
        top[r] = now;
        if (fade != A(1))
          for (int64_t i = 0; i < width; i += WIDTH<A>) store(out + r * width + i, load(out + r * width + i) * fade);
      }
      multiply<A, true>(QUERIES, width, KEYS, p, KEYS, 1, v + first * width, width, out, width);
    }
    for (int64_t r = 0; r < rows; r++) {
      const A inverse = A(1) / total[r];
      const A* x = out + r * width;
      T* to = o + (begin + r) * head.q_stride;
      each<A>(
          dim, [&](int64_t i) { store(to + i, load(x + i) * inverse); },
          [&](int64_t i, int64_t c) { store_some(to + i, load_some(x + i, c) * inverse, c); });
      lse[begin + r] = top[r] + A(__builtin_log(total[r]));
    }
  }
}

template <class T>
static void attention_backward(const Head<T>& head, const T* o, const T* d_o, const Acc<T>* lse, T* dq, Acc<T>* dk, Acc<T>* dv) {
  using A = Acc<T>;
  using V = Vec<A>;
  const int64_t dim = head.dim, keys = round_up(head.length, KEYS), width = round_up(dim, TILE_COLUMNS<A>);
  A* work = head.work;
  A *k_t = take(work, dim * keys), *v_t = take(work, dim * keys), *k = take(work, keys * width);
  A *dk_sum = take(work, keys * width), *dv_sum = take(work, keys * width);
  A *q = take(work, QUERIES * width), *g = take(work, QUERIES * width), *dq_sum = take(work, QUERIES * width);
  A *p = take(work, QUERIES * KEYS), *ds = take(work, QUERIES * KEYS);
  gather_transposed(head.k, head.kv_stride, head.length, dim, keys, k_t);
  gather_transposed(head.v, head.kv_stride, head.length, dim, keys, v_t);
  gather(head.k, head.kv_stride, head.length, keys, dim, width, A(1), k);
  __builtin_memset(dk_sum, 0, 2 * keys * width * sizeof(A));
  for (int64_t begin = 0; begin < head.length; begin += QUERIES) {
    const int64_t rows = head.length - begin < QUERIES ? head.length - begin : QUERIES;
    gather(head.q + begin * head.q_stride, head.q_stride, rows, QUERIES, dim, width, head.scale, q);
    gather(d_o + begin * head.q_stride, head.q_stride, rows, QUERIES, dim, width, A(1), g);
    __builtin_memset(dq_sum, 0, QUERIES * width * sizeof(A));
    A delta[QUERIES];
    for (int64_t r = 0; r < rows; r++) {
      const T* own = o + (begin + r) * head.q_stride;
      A dot = 0;
      for (int64_t i = 0; i < dim; i++) dot += load_one(own + i) * g[r * width + i];
      delta[r] = dot;
    }
    for (int64_t first = 0; first < begin + rows; first += KEYS) {
      multiply<A, false>(QUERIES, KEYS, dim, q, width, 1, k_t + first, keys, p, KEYS);
      multiply<A, false>(QUERIES, KEYS, dim, g, width, 1, v_t + first, keys, ds, KEYS);
      for (int64_t r = 0; r < QUERIES; r++) {
        A *row = p + r * KEYS, *back = ds + r * KEYS;
        const int64_t seen = r < rows && begin + r - first + 1 > 0 ? begin + r - first + 1 : 0;
        const A shift = r < rows ? lse[begin + r] : A(0), d = r < rows ? delta[r] : A(0);
        for (int64_t c = 0; c < KEYS && c < seen; c += WIDTH<A>) {
          const V e = exponential(load(row + c) - shift);
          store(row + c, e);
          store(back + c, e * (load(back + c) - d));
        }
        for (int64_t c = seen; c < KEYS; c++) row[c] = back[c] = 0;
      }
      multiply<A, true>(QUERIES, width, KEYS, ds, KEYS, 1, k + first * width, width, dq_sum, width);
      multiply<A, true>(KEYS, width, QUERIES, ds, 1, KEYS, q, width, dk_sum + first * width, width);
      multiply<A, true>(KEYS, width, QUERIES, p, 1, KEYS, g, width, dv_sum + first * width, width);
    }
    for (int64_t r = 0; r < rows; r++) {
      T* to = dq + (begin + r) * head.q_stride;
      const A* x = dq_sum + r * width;
      each<A>(
          dim, [&](int64_t i) { store(to + i, load(x + i) * head.scale); },
          [&](int64_t i, int64_t c) { store_some(to + i, load_some(x + i, c) * head.scale, c); });
    }
  }
  for (int64_t r = 0; r < head.length; r++) {
    __builtin_memcpy(dk + r * dim, dk_sum + r * width, dim * sizeof(A));
    __builtin_memcpy(dv + r * dim, dv_sum + r * width, dim * sizeof(A));
  }
}

}  // namespace VARIANT
