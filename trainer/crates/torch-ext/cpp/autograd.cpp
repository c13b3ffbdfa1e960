// Backward from given output gradients, and .grad itself: what tch's run_backward does not take.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include "guard.h"

using at::Tensor;

// A null entry stays an undefined tensor: ones for a scalar output.
static std::vector<Tensor> list(Tensor* const* tensors, size_t count) {
  std::vector<Tensor> out;
  out.reserve(count);
  for (size_t i = 0; i < count; i++) out.push_back(tensors[i] ? *tensors[i] : Tensor());
  return out;
}

extern "C" {

int ext_backward(Tensor* const* outputs, Tensor* const* grads, size_t count, int keep_graph, char** error) {
  return guard(error, [&] { torch::autograd::backward(list(outputs, count), list(grads, count), (bool)keep_graph); });
}

int ext_grad(Tensor* const* outputs, Tensor* const* grads, size_t count, Tensor* const* inputs, size_t num_inputs,
             int keep_graph, Tensor** out, char** error) {
  return guard(error, [&] {
    auto result = torch::autograd::grad(list(outputs, count), list(inputs, num_inputs), list(grads, count),
                                        (bool)keep_graph, /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < num_inputs; i++) out[i] = result[i].defined() ? new Tensor(result[i]) : nullptr;
  });
}

int ext_set_grad(Tensor* tensor, Tensor* grad, char** error) {
  return guard(error, [&] { tensor->mutable_grad() = grad ? *grad : Tensor(); });
}

void ext_free_string(char* text) { free(text); }

}  // extern "C"
