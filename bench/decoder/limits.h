#pragma once

#include <cstddef>

/// What the machine can do at best, measured: what a decoder's figures are shares of.
namespace gpux_cpu::decoder {

/// Of one thread its processor's time, so that other programs count for less; of several, the time that passes.
double seconds_now(std::size_t threads);

/// Bytes/s that `threads` threads read together, each its own part of `bytes` again and again, as weights are read at
/// each step: what fits stays in the caches.
double memory_bandwidth(std::size_t threads, std::size_t bytes);

/// Products/s of one thread, of bytes, in the nearest cache; by its processor's time.
double byte_products_a_second();

}  // namespace gpux_cpu::decoder
