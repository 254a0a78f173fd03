#pragma once

#include <cstdint>

namespace gpux::checkpoint {

/// gelu_tanh is gelu's approximation by tanh; silu is x * sigmoid(x), quick_gelu x * sigmoid(1.702 x).
enum class Activation : std::uint8_t { identity, tanh, relu, gelu, gelu_tanh, silu, quick_gelu, sigmoid };

}  // namespace gpux::checkpoint
