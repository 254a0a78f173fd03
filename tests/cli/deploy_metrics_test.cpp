// The board and the alert rules of deploy/ ask for metrics and labels that `gpux serve` emits.
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/files.h"
#include "cli/chat_model.h"
#include "cli/failing_provider.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The labels of each metric, with the values that were seen.
using Metrics = std::map<std::string, std::map<std::string, std::set<std::string>>>;

void read_metrics(const std::string& page, Metrics& metrics) {
  static const std::regex label_pattern(R"re((\w+)="((?:\\.|[^"\\])*)")re");
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t end = line.find_first_of("{ ");
    auto& labels = metrics[line.substr(0, end)];
    for (std::sregex_iterator found(line.begin(), line.end(), label_pattern), none; found != none; ++found) {
      labels[(*found)[1]].insert((*found)[2]);
    }
  }
}

/// A word, a number, a text in quotes, or a sign of PromQL.
std::vector<std::string> tokens_of(const std::string& expression) {
  static const std::regex pattern(R"re("(?:\\.|[^"\\])*"|[A-Za-z_:$][\w:]*|\d[\w.]*|=~|!~|!=|==|>=|<=|[^\s])re");
  std::vector<std::string> tokens;
  for (std::sregex_iterator found(expression.begin(), expression.end(), pattern), none; found != none; ++found) {
    tokens.push_back(found->str());
  }
  return tokens;
}

bool is_word(const std::string& token) {
  return std::isalpha(static_cast<unsigned char>(token.front())) != 0 || token.front() == '_';
}

/// What an expression or a text of the board asks for that is not there.
class Checked {
 public:
  explicit Checked(const Metrics& metrics) : metrics_(metrics) {}

  void expression(const std::string& text) {
    const std::vector<std::string> tokens = tokens_of(text);
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string& token = tokens[i];
      const std::string next = i + 1 < tokens.size() ? tokens[i + 1] : "";
      if (token == "[") {
        while (i < tokens.size() && tokens[i] != "]") ++i;
      } else if (grouping().contains(token)) {
        const bool is_kept = token == "by";
        for (i += 2; i < tokens.size() && tokens[i] != ")"; ++i) {
          if (tokens[i] == ",") continue;
          wanted.push_back(tokens[i]);
          if (is_kept) kept_.insert(tokens[i]);
        }
      } else if (is_word(token) && !operators().contains(token)) {
        if (next == "(" || grouping().contains(next)) {
          if (!functions().contains(token)) problems_.push_back("no function " + token);
        } else {
          i = selector(tokens, i);
        }
      }
    }
    labels(wanted);
  }

  /// "label_values(METRIC{…}, LABEL)", as variables of a board ask.
  void variable(const std::string& query) {
    static const std::regex pattern(R"re(label_values\((.*),\s*(\w+)\))re");
    std::smatch found;
    if (!std::regex_match(query, found, pattern)) {
      problems_.push_back("no query of values: " + query);
      return;
    }
    expression(found[1]);
    labels({found[2]});
  }

  /// A text with {{label}} or {{ $labels.label }}, of the expression that was checked last.
  void text(const std::string& text) {
    static const std::regex pattern(R"re(\{\{\s*(?:\$labels\.)?(\w+)\s*\}\})re");
    for (std::sregex_iterator found(text.begin(), text.end(), pattern), none; found != none; ++found) {
      const std::string label = (*found)[1];
      if (!(kept_.empty() ? labels_ : kept_).contains(label)) problems_.push_back("no label " + label);
    }
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

  [[nodiscard]] const std::set<std::string>& used() const { return used_; }

 private:
  static const std::set<std::string>& functions() {
    static const std::set<std::string> all{"rate", "increase", "sum", "max", "count", "histogram_quantile"};
    return all;
  }

  static const std::set<std::string>& grouping() {
    static const std::set<std::string> all{"by", "on", "without", "ignoring"};
    return all;
  }

  static const std::set<std::string>& operators() {
    static const std::set<std::string> all{"and", "or", "unless"};
    return all;
  }

  // A metric with what stands in braces behind it. Returns the index of its last token.
  std::size_t selector(const std::vector<std::string>& tokens, std::size_t i) {
    const std::string& name = tokens[i];
    used_.insert(name);
    const auto metric = metrics_.find(name);
    if (metric == metrics_.end()) problems_.push_back("no metric " + name);
    labels_.insert({"job", "instance"});  // Prometheus adds them
    if (metric != metrics_.end()) {
      for (const auto& [label, values] : metric->second) labels_.insert(label);
    }
    if (i + 1 == tokens.size() || tokens[i + 1] != "{") return i;
    for (i += 2; i < tokens.size() && tokens[i] != "}"; ++i) {
      if (!is_word(tokens[i])) continue;
      const std::string& label = tokens[i];
      const std::string value = tokens[i + 2].substr(1, tokens[i + 2].size() - 2);
      i += 2;
      if (label == "job" || label == "instance" || metric == metrics_.end()) continue;
      const auto known = metric->second.find(label);
      if (known == metric->second.end()) {
        problems_.push_back(name + " has no label " + label);
      } else if (tokens[i - 1] == "=" && !known->second.contains(value)) {
        problems_.push_back(name + " has no " + label + " " + value);
      }
    }
    return i;
  }

  void labels(const std::vector<std::string>& wanted) {
    for (const std::string& label : wanted) {
      if (!labels_.contains(label)) problems_.push_back("no label " + label);
    }
  }

  const Metrics& metrics_;
  std::set<std::string> labels_;  // of the metrics so far
  std::set<std::string> kept_;    // by sums; empty: all
  std::vector<std::string> problems_;
  std::set<std::string> used_;
};

/// Those of servers that have everything a machine without a GPU can have: texts, vectors, gRPC, devices, worker
/// processes, the store, keys, limits, kept answers, traces.
const Metrics& emitted() {
  static const Metrics all = [] {
    Metrics metrics;
    const Program gpux;
    store_chat_model(gpux, "chatty", plain_template);
    const Serving texts(gpux, {"chatty", "add=" + model("add.onnx")});
    const Serving devices(
        gpux, with_provider({"mul=" + model("multiply.onnx"), "--workers", "devices", "--isolation", "process"}),
        {{"GPUX_EXAMPLE_DEVICES", "2"}});
    const Serving store(gpux, {});
    const auto keys = gpux.folder().write("keys", "alice=first-key-123\n");
    const auto list = gpux.folder().write(
        "models.yml", "models: {add: {model: " + model("add.onnx") + ", limits: {requests_per_minute: 9}}}");
    const Serving limited(gpux,
                          {"--models", list.string(), "--api-key-file", keys.string(), "--response-cache", "1MiB"},
                          {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"}});
    EXPECT_EQ(limited.ask(http::post("/predict", R"({"x": [[1, 2, 3]]})", "X-API-Key: first-key-123\r\n")).status, 200);
    for (const Serving* server : {&texts, &devices, &store, &limited}) {
      read_metrics(server->ask(http::get("/metrics")).body, metrics);
    }
    // Free memory is known of GPUs alone.
    EXPECT_EQ(metrics.count("gpux_device_memory_bytes"), 0U) << "read it from the server";
    EXPECT_NE(read_file(GPUX_SOURCE_DIR "/src/server/metrics/metrics.cpp").find("\"gpux_device_memory_bytes\""),
              std::string::npos);
    metrics["gpux_device_memory_bytes"] = {
        {"provider", {}}, {"index", {}}, {"device", {}}, {"kind", {"total", "free"}}};
    return metrics;
  }();
  return all;
}

std::vector<std::string> problems_of(const std::string& expression) {
  Checked checked(emitted());
  checked.expression(expression);
  return checked.problems();
}

TEST(DeployedMetrics, AreCheckedByTheirNamesAndLabels) {
  EXPECT_THAT(problems_of("sum by (model, reason) (rate(nv_inference_request_failure{reason=\"REJECTED\"}[5m])) > 0"),
              IsEmpty());
  EXPECT_THAT(problems_of("rate(gpux_no_such_total[5m])"), ElementsAre("no metric gpux_no_such_total"));
  EXPECT_THAT(problems_of("sum by (model, nothing) (gpux_http_connections)"),
              ElementsAre("no label model", "no label nothing"));
  EXPECT_THAT(problems_of("nv_inference_count{reason=\"X\"}"), ElementsAre("nv_inference_count has no label reason"));
  EXPECT_THAT(problems_of("gpux_replica_state{state=\"broken\"}"),
              ElementsAre("gpux_replica_state has no state broken"));
  EXPECT_THAT(problems_of("gpux_replica_state{state=\"out\", model=~\"$model\"}"), IsEmpty());
  EXPECT_THAT(problems_of("ratio(nv_inference_count)"), ElementsAre("no function ratio"));
  Checked variable(emitted());
  variable.variable("label_values(nv_inference_count{job=~\"$job\"}, models)");
  EXPECT_THAT(variable.problems(), ElementsAre("no label models"));
  Checked text(emitted());
  text.expression("gpux_http_connections");
  text.text("{{ $labels.instance }} {{model}}");
  EXPECT_THAT(text.problems(), ElementsAre("no label model"));
  Checked sum(emitted());
  sum.expression("sum by (model) (nv_inference_count)");
  sum.text("{{model}} {{version}}");
  EXPECT_THAT(sum.problems(), ElementsAre("no label version"));
}

TEST(DeployedMetrics, OfTheBoardAreEmitted) {
  const Json board = Json::parse(read_file(GPUX_SOURCE_DIR "/deploy/grafana/gpux.json"));
  std::size_t count = 0;
  std::set<int> ids;
  std::set<std::string> used;
  for (const Json& panel : board.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("id");
    EXPECT_FALSE(panel.at("title").get<std::string>().empty());
    for (const Json& target : panel.value("targets", Json::array())) {
      Checked checked(emitted());
      checked.expression(target.at("expr"));
      checked.text(target.at("legendFormat"));
      EXPECT_THAT(checked.problems(), IsEmpty()) << panel.at("title") << ": " << target.at("expr");
      used.insert(checked.used().begin(), checked.used().end());
      ++count;
    }
  }
  for (const Json& variable : board.at("templating").at("list")) {
    if (variable.at("type") != "query") continue;
    Checked checked(emitted());
    checked.variable(variable.at("definition"));
    EXPECT_THAT(checked.problems(), IsEmpty()) << variable.at("name");
  }
  EXPECT_GT(count, 30U);
  EXPECT_GT(used.size(), 25U);
}

TEST(DeployedMetrics, OfTheAlertRulesAreEmitted) {
  const YAML::Node rules = YAML::LoadFile(GPUX_SOURCE_DIR "/deploy/prometheus/gpux.rules.yml");
  std::set<std::string> names;
  for (const YAML::Node& group : rules["groups"]) {
    for (const YAML::Node& rule : group["rules"]) {
      const auto name = rule["alert"].as<std::string>();
      EXPECT_TRUE(names.insert(name).second) << name;
      Checked checked(emitted());
      checked.expression(rule["expr"].as<std::string>());
      for (const auto& annotation : rule["annotations"]) checked.text(annotation.second.as<std::string>());
      EXPECT_THAT(checked.problems(), IsEmpty()) << name;
      EXPECT_FALSE(checked.used().empty()) << name;
      EXPECT_THAT(rule["labels"]["severity"].as<std::string>(), testing::AnyOf("warning", "critical")) << name;
      EXPECT_TRUE(rule["annotations"]["summary"]) << name;
      EXPECT_TRUE(rule["annotations"]["description"]) << name;
    }
  }
  EXPECT_GT(names.size(), 10U);
}

}  // namespace
}  // namespace gpux::test
