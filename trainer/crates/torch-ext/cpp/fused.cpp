// RMS norm, rotary embedding, SwiGLU, cross-entropy and attention as autograd functions over the kernels of kernels.h.
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

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

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(AutogradContext* ctx, const Tensor& logits_in, const Tensor& labels_in) {
    TORCH_CHECK(logits_in.dim() == 2 && labels_in.dim() == 1 && labels_in.size(0) == logits_in.size(0), "logits ",
                logits_in.sizes(), " and labels ", labels_in.sizes(), " do not fit");
    TORCH_CHECK(labels_in.scalar_type() == at::kLong, "labels must be int64");
    auto logits = logits_in.contiguous(), labels = labels_in.contiguous();
    const int64_t rows = logits.size(0), n = logits.size(1);
    for (int64_t r = 0; r < rows; r++)
      TORCH_CHECK(data<int64_t>(labels)[r] < n, "the label ", data<int64_t>(labels)[r], " is not below ", n);
    auto loss = at::empty({rows}, logits.options().dtype(acc_type(logits))), lse = at::empty_like(loss);
    by_type(logits, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
        kernels<T>().cross_entropy(data<T>(logits) + begin * n, data<int64_t>(labels) + begin, end - begin, n,
                                   data<A>(loss) + begin, data<A>(lse) + begin);
      });
    });
    ctx->save_for_backward({logits, labels, lse});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &logits = saved[0], &labels = saved[1], &lse = saved[2];
    auto dloss = grads[0].contiguous();
    auto dx = at::empty_like(logits);
    const int64_t rows = logits.size(0), n = logits.size(1);
    by_type(logits, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
        kernels<T>().cross_entropy_backward(data<T>(logits) + begin * n, data<int64_t>(labels) + begin,
                                            data<A>(lse) + begin, data<A>(dloss) + begin, end - begin, n,
                                            data<T>(dx) + begin * n);
      });
    });
    return {dx, Tensor()};
  }
};

struct Attention : torch::autograd::Function<Attention> {
  // The segment and the head of a task; tasks of one segment stand together.
  struct Task {
    int64_t begin, length, head;
  };
  static std::vector<Task> tasks(const std::vector<int64_t>& segments, int64_t heads) {
    std::vector<Task> out;
    int64_t begin = 0;
    for (auto length : segments) {
      for (int64_t h = 0; h < heads; h++) out.push_back({begin, length, h});
      begin += length;
    }
    return out;
  }
  template <class T, class F>
  static void run(const std::vector<Task>& list, const Tensor& q, const Tensor& k, const Tensor& v, const F& work) {
    const int64_t heads = q.size(1), kv_heads = k.size(1), dim = q.size(2);
    parallel_rows(list.size(), 1 << 20, [&](int64_t begin, int64_t end) {
      std::vector<Acc<T>> memory;
      for (int64_t i = begin; i < end; i++) {
        const auto& task = list[i];
        const int64_t kv = task.head / (heads / kv_heads);
        memory.resize(std::max<size_t>(memory.size(), kernels<T>().attention_work(task.length, dim)));
        const int64_t q_at = (task.begin * heads + task.head) * dim, kv_at = (task.begin * kv_heads + kv) * dim;
        work(Head<T>{data<T>(q) + q_at, data<T>(k) + kv_at, data<T>(v) + kv_at, heads * dim, kv_heads * dim, task.length,
                     dim, Acc<T>(1) / Acc<T>(std::sqrt(double(dim))), memory.data()},
             task, q_at);
      }
    });
  }
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        std::vector<int64_t> segments) {
    TORCH_CHECK(q_in.dim() == 3 && k_in.dim() == 3 && k_in.sizes() == v_in.sizes() && q_in.size(0) == k_in.size(0) &&
                    q_in.size(2) == k_in.size(2) && k_in.size(1) > 0 && q_in.size(1) % k_in.size(1) == 0,
                "queries ", q_in.sizes(), ", keys ", k_in.sizes(), " and values ", v_in.sizes(), " do not fit");
    TORCH_CHECK(q_in.scalar_type() == k_in.scalar_type() && k_in.scalar_type() == v_in.scalar_type(),
                "queries, keys and values must have one type");
    int64_t total = 0;
    for (auto length : segments) {
      TORCH_CHECK(length > 0, "a segment of length ", length);
      total += length;
    }
    TORCH_CHECK(total == q_in.size(0), "segments of ", total, " tokens do not fit queries ", q_in.sizes());
    auto q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
    auto out = at::empty_like(q);
    auto lse = at::empty({q.size(1), total}, q.options().dtype(acc_type(q)));
    by_type(q, [&](auto t) {
      using T = decltype(t);
      run<T>(tasks(segments, q.size(1)), q, k, v, [&](const Head<T>& head, const Task& task, int64_t at) {
        kernels<T>().attention(head, data<T>(out) + at, data<Acc<T>>(lse) + task.head * total + task.begin);
      });
    });
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["segments"] = segments;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const auto segments = ctx->saved_data["segments"].toIntVector();
    auto g = grads[0].contiguous();
    const int64_t total = q.size(0), heads = q.size(1), kv_heads = k.size(1), dim = q.size(2);
    auto dq = at::empty_like(q);
    // A part a query head, summed over the heads that share keys.
    auto dk = at::empty({heads, total, dim}, lse.options()), dv = at::empty_like(dk);
    by_type(q, [&](auto t) {
      using T = decltype(t);
      using A = Acc<T>;
      run<T>(tasks(segments, heads), q, k, v, [&](const Head<T>& head, const Task& task, int64_t at) {
        const int64_t row = task.head * total + task.begin;
        kernels<T>().attention_backward(head, data<T>(out) + at, data<T>(g) + at, data<A>(lse) + row, data<T>(dq) + at,
                                        data<A>(dk) + row * dim, data<A>(dv) + row * dim);
      });
    });
    const auto fold = [&](const Tensor& parts) {
      return parts.view({kv_heads, heads / kv_heads, total, dim}).sum(1).transpose(0, 1).to(q.scalar_type()).contiguous();
    };
    return {dq, fold(dk), fold(dv), Tensor()};
  }
};

// A frozen linear layer with an adapter. By hand for two reasons: the input's gradient is summed inside the products, and
// each thin product is taken in the order in which the short side comes first, which is up to five times faster.
struct LoraLinear : torch::autograd::Function<LoraLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                        const Tensor& a, const Tensor& b, double scaling) {
    auto y = at::linear(x, weight, bias);
    auto a_cast = a.to(x.scalar_type()), b_cast = b.mul(scaling).to(x.scalar_type());
    auto low = x.mm(a_cast.t());
    y.addmm_(low, b_cast.t());
    ctx->save_for_backward({x, weight, a_cast, b_cast, low});
    ctx->saved_data["scaling"] = scaling;
    ctx->saved_data["kind"] = int64_t(a.scalar_type());
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &a = saved[2], &b = saved[3], &low = saved[4];
    const auto kind = at::ScalarType(ctx->saved_data["kind"].toInt());
    auto dy = grads[0].contiguous();
    auto dlow_t = b.t().mm(dy.t());
    Tensor dx;
    if (ctx->needs_input_grad(0)) {
      dx = dy.mm(weight);
      dx.addmm_(dlow_t.t(), a);
    }
    auto da = dlow_t.mm(x).to(kind);
    auto db = low.t().mm(dy).to(kind).mul(ctx->saved_data["scaling"].toDouble()).t().contiguous();
    return {dx, Tensor(), Tensor(), da, db, Tensor()};
  }
};

// What the kernels do, from libtorch's own operations: for tensors on other devices.
static Tensor composed_rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  auto c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  auto halves = x.to(cos.scalar_type()).chunk(2, -1);
  return at::cat({halves[0].mul(c).sub(halves[1].mul(s)), halves[1].mul(c).add(halves[0].mul(s))}, -1).to(x.scalar_type());
}

extern "C" {

int ext_lora_linear(Tensor* x, Tensor* weight, Tensor* bias, Tensor* a, Tensor* b, double scaling, Tensor** out,
                    char** error) {
  return guard(error, [&] {
    TORCH_CHECK(!weight->requires_grad() && !(bias && bias->requires_grad()), "the weight and the bias must be frozen");
    std::optional<Tensor> with = bias ? std::optional<Tensor>(*bias) : std::nullopt;
    *out = new Tensor(LoraLinear::apply(*x, *weight, with, *a, *b, scaling));
  });
}

int ext_cross_entropy(Tensor* logits, Tensor* labels, Tensor** out, char** error) {
  return guard(error, [&] {
    *out = new Tensor(logits->is_cpu() ? CrossEntropy::apply(*logits, *labels)
                                       : at::cross_entropy_loss(logits->to(acc_type(*logits)), *labels, {}, /*none*/ 0));
  });
}

int ext_attention(Tensor* q, Tensor* k, Tensor* v, const int64_t* segments, size_t count, Tensor** out, char** error) {
  return guard(error, [&] {
    *out = new Tensor(Attention::apply(*q, *k, *v, std::vector<int64_t>(segments, segments + count)));
  });
}

int ext_rms_norm(Tensor* x, Tensor* weight, double eps, Tensor** out, char** error) {
  return guard(error, [&] {
    *out = new Tensor(x->is_cpu() ? RmsNorm::apply(*x, *weight, eps)
                                  : at::rms_norm(*x, weight->sizes(), weight->to(x->scalar_type()), eps));
  });
}

int ext_rotate(Tensor* x, Tensor* cos, Tensor* sin, Tensor** out, char** error) {
  return guard(error, [&] {
    *out = new Tensor(x->is_cpu() ? Rotate::apply(*x, *cos, *sin) : composed_rotate(*x, *cos, *sin));
  });
}

int ext_swiglu(Tensor* gate, Tensor* up, Tensor** out, char** error) {
  return guard(error, [&] {
    *out = new Tensor(gate->is_cpu() ? SwiGlu::apply(*gate, *up) : at::silu(*gate).mul(*up));
  });
}

}  // extern "C"
