#include "server/requests/request_work.h"

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "server/requests/request_limits.h"

namespace gpux::server {

void grow_share(MemoryShare& share, const std::shared_ptr<MemoryBudget>& memory, std::uint64_t bytes,
                std::string_view what) {
  if (share.grow(bytes) || memory == nullptr) return;
  const std::uint64_t wanted = share.bytes() + bytes;
  if (wanted > memory->limit_bytes()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("{} may take {} bytes of memory; accepted: at most {}: send less at a time", what, wanted,
                            memory->limit_bytes()));
  }
  throw Error(ErrorCode::resource_exhausted,
              fmt::format("{} may take {} bytes of memory, and requests hold {} of the {} that they may hold together: "
                          "try later",
                          what, wanted, memory->held_bytes(), memory->limit_bytes()));
}

std::shared_ptr<MemoryShare> RequestWork::hold(std::uint64_t bytes, std::string_view what) const {
  auto share = std::make_shared<MemoryShare>(memory);
  grow_share(*share, memory, bytes, what);
  return share;
}

void RequestWork::add_tokens(std::uint64_t count) const {
  if (limited) limited->add_tokens(count);
  if (of_model) of_model->add_tokens(count);
}

Error current_error() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::resource_exhausted, "the server has no memory left for the request: try later"};
  } catch (const std::length_error&) {
    return {ErrorCode::resource_exhausted, "the request needs more memory than there can be"};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "the server failed"};
  }
}

}  // namespace gpux::server
