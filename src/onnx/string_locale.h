#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpux::onnx {

/// The model with `locale` in each StringNormalizer that has an English locale (en_US, en_US.UTF-8) or names none, also
/// in subgraphs and functions. Letters have the same upper and lower case in all locales of UTF-8 but a few (Turkish,
/// Azerbaijani, Lithuanian), which stay as they are. Empty where there is no such node, or `model` is no model that can
/// be read. Pure.
std::optional<std::string> with_locale(std::string_view model, std::string_view locale);

}  // namespace gpux::onnx
