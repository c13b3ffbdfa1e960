// What every entry point shares: a C++ exception becomes a kind and a message, never an unwinding into Rust.
#pragma once
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <typeinfo>

enum Kind { OK = 0, OTHER = 1, TIMEOUT = 2, NETWORK = 3, MISMATCH = 4 };

inline bool says(const std::string& message, std::initializer_list<const char*> words) {
  for (auto* word : words) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

// Most of c10d's and all of gloo's errors have no type of their own, so the words decide; `otherwise` where they are silent.
inline Kind kind_of(const std::string& message, Kind otherwise) {
  if (says(message, {"Detected mismatch between collectives"})) return MISMATCH;
  if (says(message, {"imed out", "imeout", "failed to pass monitoredBarrier"})) return TIMEOUT;
  if (says(message, {"onnection", "ocket", "roken pipe", "ddress already in use", "EADDRINUSE", "resolve"})) return NETWORK;
  return otherwise;
}

// Runs `f`; on an exception sets *error to a malloc'd message (freed by c10d_free) and returns its kind.
template <class F>
int guard(char** error, F&& f) noexcept {
  std::string message = "unknown C++ exception";
  Kind kind = OTHER;
  try {
    f();
    return OK;
  } catch (const c10d::TimeoutError& e) {
    message = e.what_without_backtrace();
    kind = TIMEOUT;
  } catch (const c10::DistNetworkError& e) {
    message = e.what_without_backtrace();
    kind = kind_of(message, NETWORK);
  } catch (const c10::Error& e) {
    message = e.what_without_backtrace();
    kind = kind_of(message, OTHER);
  } catch (const std::exception& e) {
    // gloo::IoException: by name, since gloo's headers are not shipped.
    message = e.what();
    kind = kind_of(message, says(typeid(e).name(), {"IoException"}) ? NETWORK : OTHER);
  } catch (...) {
  }
  *error = strdup(message.c_str());
  return kind;
}
