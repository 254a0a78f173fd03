#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::server {

/// Whether a request may pass: no keys are set, or one of them came as "Bearer KEY" in its field Authorization or as it
/// is in X-API-Key. Takes the same time wherever a wrong key differs.
bool holds_key(std::span<const std::string> keys, std::string_view authorization, std::string_view x_api_key);

/// Which of the keys came; empty where none did.
std::optional<std::size_t> key_of(std::span<const std::string> keys, std::string_view authorization,
                                  std::string_view x_api_key);

/// Problem of the API key if holds_key() is false, for the error message.
std::string_view key_problem(std::string_view authorization, std::string_view x_api_key) noexcept;

/// The keys of a file, one per line; blank lines and lines that begin with '#' are skipped. Error usage that names the
/// file where there is none, or one is shorter than 8 characters.
std::vector<std::string> keys_of_file(std::string_view text, const std::string& file);

/// The keys of the environment variable GPUX_API_KEY, which is set: one per line, without comments. Error usage where
/// it is blank, or a key is shorter than 8 characters or begins with '#': a server without keys would serve everyone.
std::vector<std::string> keys_of_variable(std::string_view text);

}  // namespace gpux::server
