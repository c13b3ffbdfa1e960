// A C interface to libtorch's c10d. Tensors cross as `at::Tensor*`, which is what tch holds; everything else as a pointer to
// a handle that Rust frees. An entry point returns 0, or a kind of guard.h and a message.
#include "guard.h"
#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

using at::Tensor;
using std::chrono::milliseconds;
template <class T> using Ptr = c10::intrusive_ptr<T>;
using Gloo = c10d::ProcessGroupGloo;
using BackendType = c10d::ProcessGroup::BackendType;

struct StoreHandle {
  Ptr<c10d::Store> store;
};

struct GroupHandle {
  Ptr<c10d::ProcessGroup> group;
  std::vector<Ptr<Gloo>> gloo;
};

struct WorkHandle {
  Ptr<c10d::Work> work;
};

// Reaches the connections of a gloo group, which are protected; it is never constructed.
struct Connections : Gloo {
  static void close(Gloo& group) {
    for (auto& context : group.*(&Connections::contexts_)) context->closeConnections();
  }
};

static Ptr<Gloo> make_gloo(const Ptr<c10d::Store>& store, int rank, int size, milliseconds timeout, const char* host, int threads) {
  auto options = Gloo::Options::create(timeout);
  options->devices.push_back(Gloo::createDeviceForHostname(host));
  options->threads = threads;
  return c10::make_intrusive<Gloo>(store, rank, size, options);
}

// Launches a collective outside of autograd and hands its work out.
template <class F>
static int launch(WorkHandle** out, char** error, F&& f) noexcept {
  return guard(error, [&] {
    at::NoGradGuard no_grad;
    *out = new WorkHandle{f()};
  });
}

static c10d::ReduceOp reduce_op(int op) { return c10d::ReduceOp(static_cast<c10d::ReduceOp::RedOpType>(op)); }

template <class O>
static O with_timeout(int64_t timeout) {
  O options;
  options.timeout = milliseconds(timeout);
  return options;
}

extern "C" {

void c10d_free(void* memory) { free(memory); }

// The process' own TORCH_CPP_LOG_LEVEL wins; without it only what ends the process is logged.
void c10d_quiet_logs() {
  c10::initLogging();
  if (getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;
}

// Stores.

// `listener` is a bound socket that the server takes over, or -1.
int c10d_store_tcp(const char* host, uint16_t port, int server, int listener, int world_size, int wait, int64_t timeout,
                   StoreHandle** out, uint16_t* out_port, char** error) {
  return guard(error, [&] {
    auto options = with_timeout<c10d::TCPStoreOptions>(timeout);
    options.port = port;
    options.isServer = server;
    options.waitWorkers = wait;
    options.numWorkers = world_size;
    if (listener >= 0) options.masterListenFd = listener;
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    *out_port = store->getPort();
    *out = new StoreHandle{store};
  });
}

int c10d_store_hash(int64_t timeout, StoreHandle** out, char** error) {
  return guard(error, [&] {
    auto store = c10::make_intrusive<c10d::HashStore>();
    store->setTimeout(milliseconds(timeout));
    *out = new StoreHandle{store};
  });
}

int c10d_store_prefix(StoreHandle* store, const char* prefix, StoreHandle** out, char** error) {
  return guard(error, [&] { *out = new StoreHandle{c10::make_intrusive<c10d::PrefixStore>(prefix, store->store)}; });
}

int c10d_store_clone(StoreHandle* store, StoreHandle** out, char** error) {
  return guard(error, [&] { *out = new StoreHandle{store->store->clone()}; });
}

int c10d_store_set(StoreHandle* store, const char* key, const uint8_t* value, size_t length, char** error) {
  return guard(error, [&] { store->store->set(key, std::vector<uint8_t>(value, value + length)); });
}

int c10d_store_get(StoreHandle* store, const char* key, uint8_t** value, size_t* length, char** error) {
  return guard(error, [&] {
    auto bytes = store->store->get(key);
    auto* copy = static_cast<uint8_t*>(malloc(bytes.size() + 1));
    TORCH_CHECK(copy, "out of memory");
    if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
    *value = copy;
    *length = bytes.size();
  });
}

int c10d_store_add(StoreHandle* store, const char* key, int64_t amount, int64_t* out, char** error) {
  return guard(error, [&] { *out = store->store->add(key, amount); });
}

int c10d_store_check(StoreHandle* store, const char* key, int* out, char** error) {
  return guard(error, [&] { *out = store->store->check({key}); });
}

int c10d_store_set_timeout(StoreHandle* store, int64_t timeout, char** error) {
  return guard(error, [&] { store->store->setTimeout(milliseconds(timeout)); });
}

void c10d_store_free(StoreHandle* store) { delete store; }

// Process groups.

// In checked mode a second gloo group compares what the ranks are about to do before each collective.
int c10d_group_gloo(StoreHandle* store, int rank, int size, int64_t timeout, const char* host, int threads, int checked,
                    GroupHandle** out, char** error) {
  return guard(error, [&] {
    const milliseconds limit(timeout);
    auto gloo = make_gloo(store->store, rank, size, limit, host, threads);
    std::vector<Ptr<Gloo>> all{gloo};
    Ptr<c10d::Backend> backend = gloo;
    if (checked) {
      auto own = c10::make_intrusive<c10d::PrefixStore>("checker", store->store);
      all.push_back(make_gloo(own, rank, size, limit, host, 1));
      backend = c10::make_intrusive<c10d::ProcessGroupWrapper>(gloo, all.back());
    }
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store->store, rank, size);
    group->setDefaultBackend(BackendType::GLOO);
    group->setBackend(c10::DeviceType::CPU, BackendType::GLOO, backend);
    *out = new GroupHandle{group, all};
  });
}

#ifdef USE_C10D_NCCL
int c10d_group_nccl(StoreHandle* store, int rank, int size, int64_t timeout, GroupHandle** out, char** error) {
  return guard(error, [&] {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = milliseconds(timeout);
    Ptr<c10d::Backend> backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store->store, rank, size, options);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store->store, rank, size);
    group->setDefaultBackend(BackendType::NCCL);
    group->setBackend(c10::DeviceType::CUDA, BackendType::NCCL, backend);
    *out = new GroupHandle{group, {}};
  });
}
#endif

// c10d's abort does nothing for gloo, so its connections are closed: the other ranks see a lost peer.
int c10d_group_abort(GroupHandle* group, char** error) {
  return guard(error, [&] {
    group->group->abort();
    for (auto& gloo : group->gloo) Connections::close(*gloo);
  });
}

void c10d_group_free(GroupHandle* group) { delete group; }

// Collectives. A timeout of -1 is the group's.

int c10d_all_reduce(GroupHandle* group, Tensor* tensor, int op, int64_t timeout, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    auto options = with_timeout<c10d::AllreduceOptions>(timeout);
    options.reduceOp = reduce_op(op);
    std::vector<Tensor> tensors{*tensor};
    return group->group->allreduce(tensors, options);
  });
}

int c10d_all_gather(GroupHandle* group, Tensor* output, Tensor* input, int64_t timeout, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    return group->group->_allgather_base(*output, *input, with_timeout<c10d::AllgatherOptions>(timeout));
  });
}

int c10d_reduce_scatter(GroupHandle* group, Tensor* output, Tensor* input, int op, int64_t timeout, WorkHandle** out,
                        char** error) {
  return launch(out, error, [&] {
    auto options = with_timeout<c10d::ReduceScatterOptions>(timeout);
    options.reduceOp = reduce_op(op);
    return group->group->_reduce_scatter_base(*output, *input, options);
  });
}

int c10d_all_to_all(GroupHandle* group, Tensor* output, Tensor* input, const int64_t* output_splits,
                    const int64_t* input_splits, size_t count, int64_t timeout, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    std::vector<int64_t> to(output_splits, output_splits + count), from(input_splits, input_splits + count);
    return group->group->alltoall_base(*output, *input, to, from, with_timeout<c10d::AllToAllOptions>(timeout));
  });
}

int c10d_broadcast(GroupHandle* group, Tensor* tensor, int root, int64_t timeout, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    auto options = with_timeout<c10d::BroadcastOptions>(timeout);
    options.rootRank = root;
    std::vector<Tensor> tensors{*tensor};
    return group->group->broadcast(tensors, options);
  });
}

int c10d_send(GroupHandle* group, Tensor* tensor, int peer, int tag, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    std::vector<Tensor> tensors{*tensor};
    return group->group->send(tensors, peer, tag);
  });
}

int c10d_recv(GroupHandle* group, Tensor* tensor, int peer, int tag, WorkHandle** out, char** error) {
  return launch(out, error, [&] {
    std::vector<Tensor> tensors{*tensor};
    return group->group->recv(tensors, peer, tag);
  });
}

int c10d_barrier(GroupHandle* group, int64_t timeout, WorkHandle** out, char** error) {
  return launch(out, error, [&] { return group->group->barrier(with_timeout<c10d::BarrierOptions>(timeout)); });
}

int c10d_monitored_barrier(GroupHandle* group, int64_t timeout, char** error) {
  return guard(error, [&] { group->group->monitoredBarrier(with_timeout<c10d::BarrierOptions>(timeout), true); });
}

// Works. A timeout of 0 waits until the collective ends or fails by its own.

int c10d_work_wait(WorkHandle* work, int64_t timeout, char** error) {
  return guard(error, [&] { TORCH_CHECK(work->work->wait(milliseconds(timeout)), "the collective was aborted"); });
}

int c10d_work_done(WorkHandle* work, int* out, char** error) {
  return guard(error, [&] { *out = work->work->isCompleted(); });
}

void c10d_work_free(WorkHandle* work) { delete work; }
}
