#include "base/caught_error.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace gpux {
namespace {

// Made beforehand: a copy of an exception takes no memory.
const Error out_of_memory(ErrorCode::resource_exhausted, "out of memory");
const Error unknown(ErrorCode::internal, "an exception of an unknown type was thrown");

}  // namespace

Error caught_error() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return out_of_memory;
    } catch (const std::length_error&) {
      return out_of_memory;
    } catch (const std::exception& error) {
      return {ErrorCode::internal, error.what()};
    } catch (...) {
      return unknown;
    }
  } catch (...) {
    return out_of_memory;  // not even for the message
  }
}

}  // namespace gpux
