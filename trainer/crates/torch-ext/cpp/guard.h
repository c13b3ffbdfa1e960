// What every entry point shares: a C++ exception becomes a message, never an unwinding into Rust.
#pragma once
#include <c10/util/Exception.h>
#include <cstdlib>
#include <cstring>
#include <string>

// Runs `f`; on an exception sets *error to a malloc'd message (freed by ext_free_string) and returns 1.
template <class F>
int guard(char** error, F&& f) noexcept {
  try {
    f();
    return 0;
  } catch (const c10::Error& e) {
    std::string message = e.what_without_backtrace();
    *error = strdup(message.c_str());
  } catch (const std::exception& e) {
    *error = strdup(e.what());
  } catch (...) {
    *error = strdup("unknown C++ exception");
  }
  return 1;
}
