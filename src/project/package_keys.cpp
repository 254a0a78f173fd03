#include "project/package_keys.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

namespace gpux {
namespace {

using yaml::TreeNode;
using Node = std::shared_ptr<const TreeNode>;

const SchemaKey* key_of(std::span<const SchemaKey> keys, const std::string& name) {
  const auto found = std::ranges::find(keys, name, &SchemaKey::name);
  return found == keys.end() ? nullptr : &*found;
}

class Filter {
 public:
  explicit Filter(std::vector<std::string>& ignored) : ignored_(ignored) {}

  Node object(const Node& node, std::span<const SchemaKey> keys, const std::string& path) {
    if (node->kind != TreeNode::Kind::map) return node;
    auto kept = std::make_shared<TreeNode>(*node);
    kept->entries.clear();
    for (const yaml::Entry& entry : node->entries) {
      const SchemaKey* key = key_of(keys, entry.key);
      const std::string name = path.empty() ? entry.key : path + "." + entry.key;
      if (key == nullptr || !ignores(*key, *entry.value, name)) {
        kept->entries.push_back(
            {entry.key, entry.key_position, key == nullptr ? entry.value : value(entry.value, *key, name)});
      }
    }
    return kept;
  }

 private:
  bool ignores(const SchemaKey& key, const TreeNode& value, const std::string& name) {
    if (value.kind == TreeNode::Kind::null) return false;
    const bool is_ignored =
        key.in_package == InPackage::decides || (key.in_package == InPackage::restricts && value.text != key.strictest);
    if (is_ignored && std::ranges::find(ignored_, name) == ignored_.end()) ignored_.push_back(name);
    return is_ignored;
  }

  Node value(const Node& node, const SchemaKey& key, const std::string& name) {
    switch (key.kind) {
      case KeyKind::object:
      case KeyKind::short_object:
        return object(node, key.keys, name);
      case KeyKind::named_objects:
        return each(node, [&](const Node& one) { return object(one, key.keys, name); });
      case KeyKind::provider_list:
        return each(node, [&](const Node& one) { return provider(one, key, name); });
      default:
        return node;
    }
  }

  // Of a list, or of a map of names to them.
  template <typename Change>
  Node each(const Node& node, const Change& change) {
    auto changed = std::make_shared<TreeNode>(*node);
    for (Node& item : changed->items) item = change(item);
    for (yaml::Entry& entry : changed->entries) entry.value = change(entry.value);
    return changed;
  }

  // A name alone, {name: …, options: …}, or the name with its options.
  Node provider(const Node& node, const SchemaKey& key, const std::string& name) {
    if (node->kind != TreeNode::Kind::map || node->find("name") != nullptr) return object(node, key.keys, name);
    const SchemaKey* options = key_of(key.keys, "options");
    return each(node, [&](const Node& given) -> Node {
      if (options == nullptr || !ignores(*options, *given, name + ".options")) return given;
      auto none = std::make_shared<TreeNode>();
      none->position = given->position;
      return none;
    });
  }

  std::vector<std::string>& ignored_;
};

}  // namespace

Node without_decisions(const Node& file, const SchemaKey& schema, std::vector<std::string>& ignored) {
  return Filter(ignored).object(file, schema.keys, "");
}

}  // namespace gpux
