// The names of gloo that ProcessGroupGloo.hpp mentions; libtorch has gloo inside but ships none of its headers. Gloo's
// objects are made, read and freed in libtorch only: here they stand behind pointers, so their layout does not matter.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();
};

namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

namespace rendezvous {
class Store {
 public:
  using Bytes = std::vector<char>;
  virtual ~Store();
  virtual void set(const std::string& key, const Bytes& value) = 0;
  virtual Bytes get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

}  // namespace gloo
