#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "gpux/options.h"
#include "settings/setting.h"

/// Values of settings from the texts of flags and variables. Errors of refuse().
namespace gpux {

std::string read_text(const std::string& text, const Source& source);  ///< any
unsigned read_number(const std::string& text, const Source& source);
unsigned read_thread_count(const std::string& text, const Source& source);
Strictness read_strictness(const std::string& text, const Source& source);
std::uint64_t read_memory_size(const std::string& text, const Source& source);
std::string read_precision(const std::string& text, const Source& source);
double read_min_cosine(const std::string& text, const Source& source);
Optimization read_optimization(const std::string& text, const Source& source);
Isolation read_isolation(const std::string& text, const Source& source);
Sandbox read_sandbox(const std::string& text, const Source& source);
bool read_switch(const std::string& text, const Source& source);                         ///< on, off
std::chrono::milliseconds read_duration(const std::string& text, const Source& source);  ///< above 0
std::chrono::milliseconds read_wait(const std::string& text, const Source& source);      ///< 0, or a duration
BatchAxis read_batch_axis(const std::string& text, const Source& source);                ///< 0, none

/// Reads a provider library, NAME=PATH.
ProviderLibrary read_provider_library(const std::string& text, const Source& source);
/// Reads an entry, KEY=VALUE.
std::pair<std::string, std::string> read_entry(const std::string& text, const Source& source);
/// [PROVIDER.]KEY=VALUE; `provider` is empty where the text has none.
ProviderOptions read_provider_option(const std::string& text, const Source& source);

/// The values of callers who give them with their types. Errors likewise.
unsigned checked_thread_count(unsigned count, const Source& source);
double checked_min_cosine(double value, const Source& source);

}  // namespace gpux
