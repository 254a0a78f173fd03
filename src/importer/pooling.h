#pragma once

#include <optional>
#include <string_view>

#include "gpux/options.h"

namespace gpux::importer {

/// The poolings of sentence-transformers' modules.Pooling. Several are put one behind the other.
using gpux::Pooling;

/// The pooling that "pooling_mode" of a Pooling's config.json names ("mean"); empty where there is none such.
[[nodiscard]] std::optional<Pooling> pooling_from(std::string_view name) noexcept;

/// The name that pooling_from() knows it by.
[[nodiscard]] std::string_view name_of(Pooling pooling) noexcept;

}  // namespace gpux::importer
