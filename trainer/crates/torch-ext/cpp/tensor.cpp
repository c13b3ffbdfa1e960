// Fused updates over lists of tensors, storage control, and random numbers from a generator of one's own.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "guard.h"

using at::Tensor;

static std::vector<Tensor> list(Tensor* const* tensors, size_t count) {
  std::vector<Tensor> out;
  out.reserve(count);
  for (size_t i = 0; i < count; i++) out.push_back(*tensors[i]);
  return out;
}

extern "C" {

int ext_fused_adamw(Tensor* const* params, Tensor* const* grads, Tensor* const* exp_avgs, Tensor* const* exp_avg_sqs,
                    Tensor* const* steps, size_t count, double lr, double beta1, double beta2, double weight_decay,
                    double eps, char** error) {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    at::_fused_adamw_(list(params, count), list(grads, count), list(exp_avgs, count), list(exp_avg_sqs, count), {},
                      list(steps, count), lr, beta1, beta2, weight_decay, eps, /*amsgrad=*/false, /*maximize=*/false);
  });
}

int ext_foreach_norm(Tensor* const* tensors, size_t count, double* out, char** error) {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    if (count == 0) {
      *out = 0;
      return;
    }
    auto norms = at::_foreach_norm(list(tensors, count), 2);
    // Summed in double: hundreds of float norms would lose digits.
    for (auto& norm : norms) norm = norm.to(at::kDouble);
    *out = at::linalg_vector_norm(at::stack(norms)).item<double>();
  });
}

int ext_foreach_scale(Tensor* const* tensors, size_t count, double factor, char** error) {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    if (count > 0) at::_foreach_mul_(list(tensors, count), factor);
  });
}

int ext_storage_bytes(Tensor* tensor, size_t* out, char** error) {
  return guard(error, [&] { *out = tensor->storage().nbytes(); });
}

// untyped_storage().resize_(bytes) without keeping the content, on any device.
int ext_storage_resize(Tensor* tensor, size_t bytes, char** error) {
  return guard(error, [&] {
    auto* storage = tensor->storage().unsafeGetStorageImpl();
    TORCH_CHECK(storage->resizable(), "the storage is not resizable");
    if (storage->nbytes() == bytes) return;
    storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
    storage->set_nbytes(bytes);
  });
}

// The address and length of a contiguous CPU tensor's elements.
int ext_data(Tensor* tensor, void** data, size_t* bytes, char** error) {
  return guard(error, [&] {
    TORCH_CHECK(tensor->device().is_cpu(), "expected a CPU tensor");
    TORCH_CHECK(tensor->is_contiguous(), "expected a contiguous tensor");
    *data = tensor->data_ptr();
    *bytes = tensor->nbytes();
  });
}

// The default CPU generator is one per process, so ranks that are threads would share it.
int ext_bernoulli(Tensor* tensor, double probability, uint64_t seed, char** error) {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    tensor->bernoulli_(probability, at::detail::createCPUGenerator(seed));
  });
}

int ext_uniform(Tensor* tensor, double low, double high, uint64_t seed, char** error) {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    tensor->uniform_(low, high, at::detail::createCPUGenerator(seed));
  });
}

int ext_num_threads() { return at::get_num_threads(); }

void ext_release_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Freed blocks stay in the heap, where the next step finds them, instead of being unmapped and faulted in again.
void ext_keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

}  // extern "C"
