#include "library/other_folder.h"

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format_message.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

// Of "/tmp/x/model.onnx' has …" behind the folder "/tmp/x": "model.onnx".
std::string_view file_behind(std::string_view text) {
  return text.starts_with('/') ? text.substr(1, text.find_first_of("'\" :;,") - 1) : std::string_view();
}

// Calls `known_as` with each path below the folder, relative to it.
template <typename KnownAs>
Error with_other_paths(const Error& error, const fs::path& folder, const KnownAs& known_as) {
  Message message = error.parts();
  for (auto& part : message) {
    if (auto* text = std::get_if<std::string>(&part)) {
      for (std::size_t at = 0; (at = text->find(folder.string(), at)) != std::string::npos;) {
        const std::string_view rest = file_behind(std::string_view(*text).substr(at + folder.string().size()));
        const std::string known = known_as(fs::path(rest)).string();
        text->replace(at, folder.string().size() + (rest.empty() ? 0 : rest.size() + 1), known);
        at += known.size();
      }
      continue;
    }
    const auto& subject = std::get<Subject>(part);
    if (subject.kind != Subject::Kind::file) continue;
    const fs::path file = fs::path(subject.name).lexically_relative(folder);
    if (file.empty() || *file.begin() == "..") continue;
    part = file_at(known_as(file == "." ? fs::path() : file));
  }
  return {error.code(), std::move(message)};
}

}  // namespace

Error in_other_folder(const Error& error, const fs::path& folder, const fs::path& other) {
  if (folder.empty()) return error;
  return with_other_paths(error, folder, [&](const fs::path& file) { return file.empty() ? other : other / file; });
}

Error in_source_of(const Error& error, const fs::path& made, const fs::path& source) {
  return with_other_paths(error, made, [&](const fs::path& file) {
    std::error_code unreadable;
    return !file.empty() && fs::exists(source / file, unreadable) ? source / file : source;
  });
}

void rethrow_as(const Error& error, const Error& known) {
  if (known.message() == error.message()) throw;
  throw Error(known);
}

}  // namespace gpux
