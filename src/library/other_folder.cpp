#include "library/other_folder.h"

#include <string>
#include <utility>

#include "base/format_message.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

Error in_other_folder(const Error& error, const fs::path& folder, const fs::path& other) {
  if (folder.empty()) return error;
  Message message = error.parts();
  for (auto& part : message) {
    if (auto* text = std::get_if<std::string>(&part)) {
      *text = replaced(std::move(*text), folder.string(), other.string());
      continue;
    }
    const auto& subject = std::get<Subject>(part);
    if (subject.kind != Subject::Kind::file) continue;
    const fs::path file = fs::path(subject.name).lexically_relative(folder);
    if (file.empty() || *file.begin() == "..") continue;
    part = file_at(file == "." ? other : other / file);
  }
  return {error.code(), std::move(message)};
}

}  // namespace gpux
