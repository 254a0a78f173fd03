#include "daemon/state_file.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <sys/un.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "embedding/level.h"
#include "gpux/error.h"
#include "project/project_check.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using yaml::TreeNode;
using enum KeyKind;
using enum InPackage;

constexpr std::span<const SchemaKey> no_keys;
constexpr std::span<const std::string_view> no_choices;
constexpr std::array<std::string_view, 4> level_names{"none", "low", "medium", "high"};
constexpr std::array<std::string_view, 2> feature_names{"none", "heuristic"};
constexpr std::array<std::string_view, 3> lesser_levels{"low", "medium", "high"};

constexpr std::array<SchemaKey, 6> source_keys{{
    {"name", text, of_the_user, "The source's name: letters, digits, '.', '_' and '-'.", true},
    {"directory", text, of_the_user, "A folder: each *.json in it is an event."},
    {"file", text, of_the_user, "A file of JSON lines that others append to."},
    {"socket", text, of_the_user, "A unix socket that takes JSON lines; it is made."},
    {"match", text_list, of_the_user, "Match rules of D-Bus: each signal they let through is an event."},
    {"bus", text, of_the_user, "The D-Bus of the rules: system (the default), session, or an address."},
}};

constexpr std::array<SchemaKey, 4> limit_keys{{
    {"event_bytes", memory_size, of_the_user, "The longest event; 1 MiB without it."},
    {"event_depth", integer, of_the_user, "Lists and objects within each other, at most; 64 without it.", false,
     no_keys, no_choices, 1, "", 1024},
    {"journal_bytes", memory_size, of_the_user, "What may wait of a socket or bus; 1 GiB without it."},
    {"connections", integer, of_the_user, "Clients of a socket at once; 256 without it.", false, no_keys, no_choices, 1,
     "", 65536},
}};

constexpr std::int64_t max_events = std::int64_t{1} << 40;

constexpr std::array<SchemaKey, 3> downgrade_keys{{
    {"level", choice, of_the_user, "The lesser level.", true, no_keys, lesser_levels},
    {"above", integer, of_the_user, "The lower level is used while more events than this wait.", true, no_keys,
     no_choices, 1, "", max_events},
    {"below", integer, of_the_user, "With fewer the declared level is back; a tenth of 'above' without it.", false,
     no_keys, no_choices, 0, "", max_events},
}};

constexpr std::array<SchemaKey, 12> state_keys{{
    {"output", text, of_the_user, "The folder of vectors/ and timing/, relative to this file's folder.", true},
    {"sources", named_objects, of_the_user, "Where events come from.", true, source_keys, no_choices, 0, "", INT32_MAX,
     "directory"},
    {"level", choice, of_the_user, "The level of op-dbus; none, the default, makes no vectors.", false, no_keys,
     level_names},
    {"features", choice, of_the_user,
     "With level none: heuristic makes 64 numbers of each event without a model; none, the default, makes nothing.",
     false, no_keys, feature_names},
    {"model", text, of_the_user,
     "A model instead of a level: a folder, relative to this file's, or a name in the store."},
    {"model_dir", text, of_the_user, "The folder of the levels' models, each in a folder of its name."},
    {"provider", text, of_the_user, "What to run on; cpu without it."},
    {"device", integer, of_the_user, "Which of the provider's devices, from 0."},
    {"workers", integer, of_the_user, "Events embedded side by side; the processors without it.", false, no_keys,
     no_choices, 1, "", 1024},
    {"downgrade", object, of_the_user, "A lesser level while too many events wait.", false, downgrade_keys},
    {"limits", object, of_the_user, "Limits of one event, and of waiting events.", false, limit_keys},
    {"rescan", duration, of_the_user,
     "Interval at which directories are scanned in addition to being watched; default: 30 s."},
}};

constexpr SchemaKey state_root{"state.json", object,    of_the_user, "The sources and the output of gpux daemon.",
                               true,         state_keys};

std::optional<std::int64_t> integer_of(const TreeNode& node, std::string_view key) {
  const TreeNode* found = node.given(key);
  return found == nullptr ? std::nullopt : integer_from(found->text);
}

/// Reads what the table has let through, and sees what it cannot say.
class Reader {
 public:
  Reader(const fs::path& file, ProblemList& problems)
      : folder_(fs::absolute(file).lexically_normal().parent_path()), problems_(problems) {}

  StateFile read(const TreeNode& root) {
    StateFile state;
    state.output = path_of(root, "output");
    state.level = root.text_of("level");
    if (state.level == "none") state.level.clear();
    if (const TreeNode* model = root.given("model")) {
      if (!state.level.empty()) problems_.add(model->position, "'model' and 'level' are both given; one is accepted");
      std::error_code unreadable;
      const fs::path place = folder_ / model->text;
      state.model = fs::exists(place, unreadable) ? place.lexically_normal().string() : model->text;
    }
    if (root.given("model_dir") != nullptr) state.model_dir = path_of(root, "model_dir").string();
    if (const TreeNode* features = root.given("features")) {
      state.features = features->text;
      if (state.features == "heuristic" && !(state.level.empty() && state.model.empty())) {
        problems_.add(features->position, fmt::format("'features' requires level none, and '{}' is given",
                                                      state.model.empty() ? "level" : "model"));
      }
    }
    state.provider = root.text_of("provider");
    if (const auto device = integer_of(root, "device")) state.device = static_cast<std::uint32_t>(*device);
    if (const auto workers = integer_of(root, "workers")) state.workers = static_cast<unsigned>(*workers);
    if (const TreeNode* downgrade = root.given("downgrade")) read_downgrade(*downgrade, state);
    if (const TreeNode* limits = root.given("limits")) read_limits(*limits, state.limits);
    if (const TreeNode* rescan = root.given("rescan"))
      state.rescan = duration_from(rescan->text).value_or(state.rescan);
    read_sources(*root.find("sources"), state);
    return state;
  }

 private:
  fs::path path_of(const TreeNode& node, std::string_view key) {
    const TreeNode* found = node.given(key);
    if (found == nullptr) return {};
    if (found->text.empty())
      problems_.add(found->position, fmt::format("{} is empty; a path is accepted", in_quotes(key)));
    return (folder_ / found->text).lexically_normal();
  }

  void read_downgrade(const TreeNode& node, StateFile& state) {
    Downgrade downgrade;
    downgrade.level = node.text_of("level");
    downgrade.above = static_cast<std::uint64_t>(integer_of(node, "above").value_or(1));
    downgrade.below = static_cast<std::uint64_t>(integer_of(node, "below").value_or(0));
    if (node.given("below") == nullptr) downgrade.below = downgrade.above / 10;
    if (downgrade.below >= downgrade.above) {
      problems_.add(
          node.given("below")->position,
          fmt::format("'downgrade.below' is {}; less than 'above', {}, is accepted", downgrade.below, downgrade.above));
    }
    const embedding::Level* lesser = embedding::level_from(downgrade.level);
    const embedding::Level* declared = embedding::level_from(state.level);
    if (!state.model.empty()) {
      problems_.add(node.position, "'downgrade' requires 'level', and 'model' is given");
    } else if (declared != nullptr && lesser >= declared) {
      problems_.add(
          node.given("level")->position,
          fmt::format("'downgrade.level' is '{}', which is not less than 'level', '{}'", downgrade.level, state.level));
    }
    state.downgrade = std::move(downgrade);
  }

  static void read_limits(const TreeNode& node, EventLimits& limits) {
    if (const TreeNode* bytes = node.given("event_bytes"))
      limits.event_bytes = parse_memory_size(bytes->text).value_or(0);
    if (const TreeNode* bytes = node.given("journal_bytes")) {
      limits.journal_bytes = parse_memory_size(bytes->text).value_or(0);
    }
    limits.event_depth = static_cast<int>(integer_of(node, "event_depth").value_or(limits.event_depth));
    limits.connections = static_cast<unsigned>(integer_of(node, "connections").value_or(limits.connections));
  }

  void read_sources(const TreeNode& sources, StateFile& state) {
    for (const auto& item : sources.items) add_source(*item, item->text_of("name"), item->position, state);
    for (const yaml::Entry& entry : sources.entries) add_source(*entry.value, entry.key, entry.key_position, state);
    if (state.sources.empty()) problems_.add(sources.position, "'sources' is empty; one at least is accepted");
  }

  void add_source(const TreeNode& node, const std::string& name, yaml::Position position, StateFile& state) {
    using Kind = DeclaredSource::Kind;
    DeclaredSource source{.name = name, .kind = Kind::directory, .path = {}, .match = {}};
    check_name(name, position);
    if (node.kind == TreeNode::Kind::scalar) {
      source.path = (folder_ / node.text).lexically_normal();
      state.sources.push_back(std::move(source));
      return;
    }
    static constexpr std::array<std::pair<std::string_view, Kind>, 4> kinds{
        {{"directory", Kind::directory}, {"file", Kind::file}, {"socket", Kind::socket}, {"match", Kind::bus}}};
    std::size_t said = 0;
    for (const auto& [key, kind] : kinds) {
      if (node.given(key) == nullptr) continue;
      ++said;
      source.kind = kind;
      if (kind != Kind::bus) source.path = path_of(node, key);
    }
    if (said != 1) {
      problems_.add(position, fmt::format("source {} has {} of directory, file, socket and match; one is accepted",
                                          in_quotes(name), said));
      return;
    }
    if (source.kind == Kind::socket && source.path.native().size() >= sizeof(sockaddr_un::sun_path)) {
      problems_.add(node.given("socket")->position,
                    fmt::format("the path of a socket has {} bytes; at most {} are accepted",
                                source.path.native().size(), sizeof(sockaddr_un::sun_path) - 1));
    }
    read_rules(node, source);
    state.sources.push_back(std::move(source));
  }

  void read_rules(const TreeNode& node, DeclaredSource& source) {
    if (const TreeNode* match = node.given("match")) {
      for (const auto& rule : match->items) source.match.push_back(rule->text);
      if (source.match.empty()) problems_.add(match->position, "'match' is empty; one rule at least is accepted");
    }
    const TreeNode* bus = node.given("bus");
    if (bus == nullptr) return;
    source.bus = bus->text;
    if (source.kind != DeclaredSource::Kind::bus) {
      problems_.add(bus->position, "'bus' is given without 'match'");
    } else if (source.bus != "system" && source.bus != "session" && source.bus.find(':') == std::string::npos) {
      problems_.add(bus->position, fmt::format("'bus' is {}; system, session or an address (unix:path=…) is accepted",
                                               in_quotes(source.bus)));
    }
  }

  // It is part of names of files, and of the events' hashes.
  void check_name(const std::string& name, yaml::Position position) {
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
             c == '-';
    };
    if (name.empty() || name.size() > 100 || name.front() == '.' || !std::all_of(name.begin(), name.end(), fits)) {
      problems_.add(position, fmt::format("the source's name {} is not accepted: 1 to 100 of letters, digits, '.', '_' "
                                          "and '-', the first no '.'",
                                          in_quotes(name)));
    } else if (!names_.insert(name).second) {
      problems_.add(position, fmt::format("there are two sources {}", in_quotes(name)));
    }
  }

  fs::path folder_;
  ProblemList& problems_;
  std::set<std::string> names_;
};

}  // namespace

const SchemaKey& state_schema() noexcept {
  return state_root;
}

StateFile read_state_file(const fs::path& file) {
  return parse_state_file(read_file(file, std::uint64_t{1} << 20), file);
}

StateFile parse_state_file(std::string_view text, const fs::path& file) {
  // JSON may be indented with tabs, YAML, which the places come from, may not.
  std::string content(text);
  std::replace(content.begin(), content.end(), '\t', ' ');
  ProblemList problems(file.string());
  Positions positions;
  const auto root = parse_expanded(content, file.string(), problems);
  if (root->find("plugins") != nullptr) {
    throw Error(
        ErrorCode::usage,
        format_message("'{}' has 'plugins': it is a state file of op-dbus itself, which says how a system is to "
                       "be; gpux daemon takes one with 'output' and 'sources', as 'gpux schema --daemon' says",
                       file_at(file)));
  }
  check_against_schema(*root, state_schema(), problems, positions);
  problems.throw_if_any();
  StateFile state = Reader(file, problems).read(*root);
  state.file = file;
  problems.throw_if_any();
  return state;
}

}  // namespace gpux::daemon
