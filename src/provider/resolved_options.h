#pragma once

#include <string>
#include <string_view>

#include "provider/options.h"

/// Options while they are resolved.
namespace gpux::provider {

/// Null: the provider has no option of that name.
[[nodiscard]] const OptionRow* find_option(const ProviderRow& row, std::string_view name);

/// Replaces a value of the same name.
void put(ResolvedOptions& options, std::string name, std::string value);

/// What everybody's option becomes gives way to what was said by the provider's own name.
void put_unless_said(ResolvedOptions& options, std::string name, std::string value);

[[nodiscard]] bool has(const ResolvedOptions& options, std::string_view name);

/// Empty where it is not among them. Valid until they change.
[[nodiscard]] std::string_view value_of(const ResolvedOptions& options, std::string_view name);

/// Throws Error usage: "provider cuda: option 'NAME' WHY".
[[noreturn]] void refuse(const ProviderRow& row, const std::string& name, const std::string& why);

}  // namespace gpux::provider
