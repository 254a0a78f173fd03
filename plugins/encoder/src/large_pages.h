#pragma once

#include <cstddef>
#include <memory>

namespace gpux_encoder {

/// Room for what is read over and over, at a multiple of 64 bytes, beside what was asked for before and in large pages
/// where the system has them: in small ones it would be spread over the caches by chance, up to a tenth slower.
/// Any thread may call. Throws std::bad_alloc.
std::shared_ptr<std::byte> room_in_large_pages(std::size_t bytes);

}  // namespace gpux_encoder
