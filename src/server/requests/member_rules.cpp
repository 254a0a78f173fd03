#include "server/requests/member_rules.h"

#include "base/log.h"
#include "base/utf8_prefix.h"

namespace gpux::server {
namespace {

constexpr std::size_t max_logged = 256;

// "messages[].name" of "messages[3].name".
std::string without_indices(std::string_view name) {
  std::string text;
  bool is_index = false;
  for (const char letter : name) {
    if (letter == ']') is_index = false;
    if (!is_index) text += letter;
    if (letter == '[') is_index = true;
  }
  return text;
}

}  // namespace

void MemberRules::note_ignored(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = ignored_.find(name);
  if (found != ignored_.end()) {
    ++found->second;
  } else {
    ignored_.emplace(name, 1);
  }
}

void MemberRules::note_unknown(std::string_view name) {
  ++unknown_;
  const std::string shown = without_indices(utf8_prefix(name, 80));
  {
    const std::lock_guard lock(mutex_);
    if (logged_.size() >= max_logged || !logged_.insert(shown).second) return;
  }
  log::info("the member '{}' of a request is not known, and changes nothing (--strict-requests refuses such requests)",
            shown);
}

std::map<std::string, std::uint64_t> MemberRules::ignored() const {
  const std::lock_guard lock(mutex_);
  return {ignored_.begin(), ignored_.end()};
}

}  // namespace gpux::server
