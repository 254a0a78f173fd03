#pragma once

#include <cstdint>
#include <functional>

namespace gpux::server {

/// The weight of a model that says none, as the kernel's cpu.weight has it.
inline constexpr std::uint32_t default_weight = 100;

/// The nice value of threads of a model of that weight beside one of the largest, which has 0: the kernel gives a
/// thread 1.25 times the time of one whose value is 1 higher, where both want to run. At most 19, a seventieth.
/// Source: sched(7), "The nice value". Pure.
[[nodiscard]] int nice_of(std::uint32_t weight, std::uint32_t largest);

/// Calls `work` on a thread with that nice value, which the threads and processes that it starts have, too, and waits.
/// 0: on this thread. Throws what `work` throws; resource_exhausted where no thread can be started.
void with_nice(int nice, const std::function<void()>& work);

}  // namespace gpux::server
