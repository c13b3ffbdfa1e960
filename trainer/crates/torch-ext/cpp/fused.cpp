// RMS norm, rotary embedding and SwiGLU as autograd functions over the kernels of kernels.h.
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

#include "guard.h"
#include "kernels.h"

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Splits `rows` over libtorch's own threads. TensorIterator does it inside the library, so the shim needs no OpenMP
// runtime of its own, which could be another one than libtorch's.
template <class F>
static void parallel_rows(int64_t rows, int64_t row_cost, const F& work) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, row_cost));
  if (rows <= grain || at::get_num_threads() == 1) return work(0, rows);
  auto index = at::empty({rows}, at::kChar);
  auto* base = static_cast<char*>(index.data_ptr());
  auto iterator = at::TensorIterator::nullary_op(index);
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t count) { work(data[0] - base, data[0] - base + count); }, grain);
}

template <class F>
static void by_type(const Tensor& x, F&& f) {
  TORCH_CHECK(x.device().is_cpu(), "fused kernels run on the CPU, got a tensor on ", x.device());
  switch (x.scalar_type()) {
    case at::kFloat: return f(float());
    case at::kBFloat16: return f(bf16());
    case at::kDouble: return f(double());
    default: TORCH_CHECK(false, "expected float32, bfloat16 or float64, got ", x.scalar_type());
  }
}
static at::ScalarType acc_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

template <class T> static T* data(const Tensor& t) { return static_cast<T*>(t.data_ptr()); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& weight, double eps) {
    const int64_t n = weight.numel();
    TORCH_CHECK(input.dim() > 0 && input.size(-1) == n, "the last dim of ", input.sizes(), " is not ", n);
    auto x = input.contiguous();
    auto w = weight.to(acc_type(x)).contiguous();
    auto y = at::empty_like(x);
    const int64_t rows = n == 0 ? 0 : x.numel() / n;
    auto rstd = at::empty({rows}, w.options());
    by_type(x, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
        kernels<T>().rms_norm(data<T>(x) + begin * n, data<A>(w), A(eps), end - begin, n, data<T>(y) + begin * n,
                              data<A>(rstd) + begin);
      });
    });
    ctx->save_for_backward({x, weight, rstd});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &rstd = saved[2];
    const int64_t n = weight.numel(), rows = rstd.numel();
    auto dy = grads[0].contiguous();
    auto w = weight.to(acc_type(x)).contiguous();
    Tensor dx, dw;
    by_type(x, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      if (ctx->needs_input_grad(0)) {
        dx = at::empty_like(x);
        parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
          kernels<T>().rms_norm_backward(data<T>(dy) + begin * n, data<T>(x) + begin * n, data<A>(w),
                                         data<A>(rstd) + begin, end - begin, n, data<T>(dx) + begin * n);
        });
      }
      if (ctx->needs_input_grad(1)) {
        // A fixed number of partial sums, added in order: the same bits with any number of threads.
        const int64_t parts = std::min<int64_t>(16, std::max<int64_t>(1, rows)), size = (rows + parts - 1) / parts;
        auto partial = at::zeros({parts, n}, w.options());
        parallel_rows(parts, n * size, [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; p++) {
            const int64_t first = p * size, count = std::min(size, rows - first);
            if (count > 0)
              kernels<T>().rms_norm_weight(data<T>(dy) + first * n, data<T>(x) + first * n, data<A>(rstd) + first,
                                           count, n, data<A>(partial) + p * n);
          }
        });
        dw = partial.sum(0).view_as(weight).to(weight.scalar_type());
      }
    });
    return {dx, dw, Tensor()};
  }
};

struct Rotate : torch::autograd::Function<Rotate> {
  static Tensor run(const Tensor& input, const Tensor& cos, const Tensor& sin, double sign) {
    auto x = input.contiguous();
    auto y = at::empty_like(x);
    const int64_t rows = x.size(0), heads = x.size(1), half = x.size(2) / 2, row = heads * half * 2;
    by_type(x, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      parallel_rows(rows, row, [&](int64_t begin, int64_t end) {
        kernels<T>().rotate(data<T>(x) + begin * row, data<A>(cos) + begin * half, data<A>(sin) + begin * half, A(sign),
                            end - begin, heads, half, data<T>(y) + begin * row);
      });
    });
    return y;
  }
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    TORCH_CHECK(x.dim() == 3 && x.size(2) % 2 == 0, "expected [tokens, heads, an even head_dim], got ", x.sizes());
    for (const auto& table : {cos, sin}) {
      TORCH_CHECK(table.dim() == 2 && table.size(0) == x.size(0) && table.size(1) == x.size(2) / 2,
                  "a table of ", table.sizes(), " does not fit ", x.sizes());
      TORCH_CHECK(table.scalar_type() == acc_type(x) && table.is_contiguous() && table.device().is_cpu(),
                  "a table must be contiguous ", acc_type(x), " on the CPU");
    }
    ctx->save_for_backward({cos, sin});
    return run(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    return {run(grads[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in) {
    TORCH_CHECK(gate_in.sizes() == up_in.sizes() && gate_in.scalar_type() == up_in.scalar_type(), "gate ",
                gate_in.sizes(), " and up ", up_in.sizes(), " differ");
    auto gate = gate_in.contiguous(), up = up_in.contiguous();
    auto y = at::empty_like(gate);
    by_type(gate, [&](auto t) {
      using T = decltype(t);
      parallel_rows(gate.numel(), 8, [&](int64_t begin, int64_t end) {
        kernels<T>().swiglu(data<T>(gate) + begin, data<T>(up) + begin, end - begin, data<T>(y) + begin);
      });
    });
    ctx->save_for_backward({gate, up});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &gate = saved[0], &up = saved[1];
    auto dy = grads[0].contiguous();
    auto dgate = at::empty_like(gate), dup = at::empty_like(up);
    by_type(gate, [&](auto t) {
      using T = decltype(t);
      parallel_rows(gate.numel(), 16, [&](int64_t begin, int64_t end) {
        kernels<T>().swiglu_backward(data<T>(dy) + begin, data<T>(gate) + begin, data<T>(up) + begin, end - begin,
                                     data<T>(dgate) + begin, data<T>(dup) + begin);
      });
    });
    return {dgate, dup};
  }
};

extern "C" {

int ext_rms_norm(Tensor* x, Tensor* weight, double eps, Tensor** out, char** error) {
  return guard(error, [&] { *out = new Tensor(RmsNorm::apply(*x, *weight, eps)); });
}

int ext_rotate(Tensor* x, Tensor* cos, Tensor* sin, Tensor** out, char** error) {
  return guard(error, [&] { *out = new Tensor(Rotate::apply(*x, *cos, *sin)); });
}

int ext_swiglu(Tensor* gate, Tensor* up, Tensor** out, char** error) {
  return guard(error, [&] { *out = new Tensor(SwiGlu::apply(*gate, *up)); });
}

}  // extern "C"
