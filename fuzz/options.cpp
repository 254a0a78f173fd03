// What is asked of providers: the request in the first line, then options, NAME=VALUE in each line.
#include "provider/options.h"

#include <string>
#include <vector>

#include "base/spelling.h"
#include "fuzzer.h"
#include "provider/request.h"

namespace gpux::fuzz {
namespace {

void resolve(const provider::ProviderRow& row, const provider::OptionList& given,
             const provider::CommonOptions& common) {
  for (const bool as_plugin : {false, true}) {
    try {
      for (const auto& [name, value] : provider::resolve_options(row, given, common, as_plugin).passed) {
        require(!name.empty(), "an option without a name");
      }
    } catch (const Error&) {  // the other way may take them
    }
  }
}

}  // namespace

void read_hostile(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const provider::Request request = provider::parse_request(input.substr(0, end), {"mine"});
  provider::OptionList given;
  provider::CommonOptions common;
  for (const std::string& line : split(input.substr(std::min(end + 1, input.size())), '\n')) {
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(std::min(equals + 1, line.size()));
    given.emplace_back(name, value);
    provider::read_common_option(name, value, common);
  }
  const std::vector<std::string> order = provider::order_of(request, provider::System::linux_);
  require(!order.empty(), "a request for nothing");
  for (const std::string& id : order) {
    if (const provider::ProviderRow* row = provider::find_row(id)) resolve(*row, given, common);
  }
}

}  // namespace gpux::fuzz
