#include "copy_counts.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace gpux_example {
namespace {

std::array<std::atomic<std::uint64_t>, std::tuple_size_v<CopyCounts>>& counters() noexcept {
  static std::array<std::atomic<std::uint64_t>, std::tuple_size_v<CopyCounts>> all{};
  return all;
}

constexpr std::size_t first_of_allocations = 6, first_of_pinned = 8, first_of_pinned_allocations = 12;

void add(std::size_t first, std::size_t bytes) noexcept {
  ++counters()[first];
  counters()[first + 1] += bytes;
}

}  // namespace

void count_copy(CopyDirection direction, std::size_t bytes, bool pinned) noexcept {
  const std::size_t first = 2 * static_cast<std::size_t>(direction);
  add(first, bytes);
  if (pinned && direction != CopyDirection::between_devices) add(first_of_pinned + first, bytes);
}

void count_allocation(std::size_t bytes, bool pinned) noexcept {
  add(pinned ? first_of_pinned_allocations : first_of_allocations, bytes);
}

CopyCounts copy_counts() noexcept {
  CopyCounts counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = counters()[i];
  return counts;
}

void write_copy_counts() noexcept {
  const char* const path = std::getenv("GPUX_EXAMPLE_COPIES");
  if (path == nullptr || *path == '\0') return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "w"), std::fclose);
  if (file == nullptr) return;
  constexpr std::array<const char*, std::tuple_size_v<CopyCounts>> names{"to_device",
                                                                         "to_device_bytes",
                                                                         "from_device",
                                                                         "from_device_bytes",
                                                                         "between",
                                                                         "between_bytes",
                                                                         "allocations",
                                                                         "allocation_bytes",
                                                                         "pinned_to_device",
                                                                         "pinned_to_device_bytes",
                                                                         "pinned_from_device",
                                                                         "pinned_from_device_bytes",
                                                                         "pinned_allocations",
                                                                         "pinned_allocation_bytes"};
  const CopyCounts counts = copy_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    (void)std::fprintf(file.get(), "%s\"%s\": %llu", i == 0 ? "{" : ", ", names[i],
                       static_cast<unsigned long long>(counts[i]));
  }
  (void)std::fputs("}\n", file.get());
}

}  // namespace gpux_example
