#include "project/yaml_document.h"

#include <algorithm>
#include <istream>
#include <optional>
#include <streambuf>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/in_quotes.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::yaml {
namespace {

constexpr std::size_t limit_bytes = std::size_t{1} << 20;
constexpr std::size_t limit_depth = 64;
constexpr std::size_t limit_nodes = 100'000;

Position position_of(const YAML::Mark& mark) {
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

[[noreturn]] void fail(const std::string& name, Position position, std::string_view message) {
  throw Error(ErrorCode::invalid_config, fmt::format("{}:{}:{}: {}", name, position.line, position.column, message));
}

class Builder final : public YAML::EventHandler {
 public:
  Builder(const std::string& name, const std::function<std::string(const std::string&, Position)>& scalar)
      : name_(name), scalar_(scalar) {}

  std::shared_ptr<const TreeNode> root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root) fail(name_, position_of(mark), "a second document begins here; one is accepted");
  }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    TreeNode node;
    node.position = position_of(mark);
    if (waits_for_key()) fail(name_, node.position, "a key is missing here");
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position position = position_of(mark);
    if (waits_for_key()) fail(name_, position, "an alias is not accepted as a key");
    const auto anchored = anchors_.find(anchor);
    if (anchored == anchors_.end()) fail(name_, position, "an alias is inside the value that it refers to");
    attach(anchored->second, position);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Position position = position_of(mark);
    require_known(tag, position);
    if (waits_for_key()) {
      take_key(value, position);
      return;
    }
    TreeNode node;
    node.kind = TreeNode::Kind::scalar;
    node.position = position;
    node.text = scalar_(value, position);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    start(TreeNode::Kind::list, mark, tag, anchor);
  }

  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    start(TreeNode::Kind::map, mark, tag, anchor);
  }

  void OnMapEnd() override { end(); }

 private:
  struct Open {
    TreeNode node;
    YAML::anchor_t anchor;
    std::optional<std::pair<std::string, Position>> key;
    std::unordered_set<std::string> keys;
  };

  [[nodiscard]] bool waits_for_key() const {
    return !open_.empty() && open_.back().node.kind == TreeNode::Kind::map && !open_.back().key;
  }

  void take_key(const std::string& key, Position position) {
    if (!open_.back().keys.insert(key).second) {
      fail(name_, position, fmt::format("the key {} is given twice", in_quotes(key)));
    }
    open_.back().key.emplace(key, position);
  }

  void require_known(const std::string& tag, Position position) const {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    fail(name_, position, fmt::format("the tag {} means nothing here; remove it", in_quotes(tag)));
  }

  void start(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const Position position = position_of(mark);
    require_known(tag, position);
    if (waits_for_key()) fail(name_, position, "a list or map is not accepted as a key");
    if (open_.size() == limit_depth) fail(name_, position, fmt::format("nested deeper than {} levels", limit_depth));
    Open opened;
    opened.node.kind = kind;
    opened.node.position = position;
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void end() {
    Open ended = std::move(open_.back());
    open_.pop_back();
    add(std::move(ended.node), ended.anchor);
  }

  void add(TreeNode node, YAML::anchor_t anchor) {
    const Position position = node.position;
    auto shared = std::make_shared<const TreeNode>(std::move(node));
    if (anchor != 0) anchors_[anchor] = shared;
    attach(std::move(shared), position);
  }

  void attach(std::shared_ptr<const TreeNode> node, Position position) {
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    parent.node.node_count += node->node_count;
    if (parent.node.node_count > limit_nodes) fail(name_, position, fmt::format("more than {} values", limit_nodes));
    if (parent.node.kind == TreeNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.node.entries.push_back({std::move(parent.key->first), parent.key->second, std::move(node)});
    parent.key.reset();
  }

  const std::string& name_;
  const std::function<std::string(const std::string&, Position)>& scalar_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, std::shared_ptr<const TreeNode>> anchors_;
};

/// The text as a stream, without a copy.
class TextBuffer final : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// yaml-cpp takes byte 4 for the end of the text and guesses encodings: neither may hide a part of the file.
void require_readable(std::string_view text, const std::string& name) {
  if (text.size() > limit_bytes) {
    fail(name, {}, fmt::format("{} bytes; at most {} are accepted", text.size(), limit_bytes));
  }
  if (!is_utf8(text)) fail(name, {}, "not UTF-8 text");
  Position position;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') {
      fail(name, position, fmt::format("control character 0x{:02x}", static_cast<unsigned>(c)));
    }
    ++position.column;
    if (c == '\n') position = {position.line + 1, 1};
  }
}

}  // namespace

const TreeNode* TreeNode::find(std::string_view key) const noexcept {
  const auto entry = std::find_if(entries.begin(), entries.end(), [key](const Entry& e) { return e.key == key; });
  return entry == entries.end() ? nullptr : entry->value.get();
}

const TreeNode* TreeNode::given(std::string_view key) const noexcept {
  const TreeNode* found = find(key);
  return found == nullptr || found->kind == Kind::null ? nullptr : found;
}

std::string TreeNode::text_of(std::string_view key) const {
  const TreeNode* found = given(key);
  return found == nullptr ? std::string() : found->text;
}

std::shared_ptr<const TreeNode> parse(std::string_view text, const std::string& name,
                                      const std::function<std::string(const std::string&, Position)>& scalar) {
  require_readable(text, name);
  Builder builder(name, scalar);
  try {
    TextBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail(name, position_of(error.mark), error.msg);
  }
  return builder.root ? builder.root : std::make_shared<const TreeNode>();
}

}  // namespace gpux::yaml
