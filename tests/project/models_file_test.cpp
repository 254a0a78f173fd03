#include "project/models_file.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(ModelsFile, IsReadInBothForms) {
  const test::TemporaryFolder folder;
  folder.write("m.onnx", "");
  const auto file = folder.path() / "models.yml";
  const ModelsFile map = parse_models_file(
      "models:\n  a: m.onnx\n  b: {model: stored:1, version: 2, provider: 'cuda,cpu', strict: nodes, pinned: true,\n"
      "      batch_size: 4, max_batch_cost: 5000000000, padding: {x: -1, y: 0.5}, max_queue: 3, max_queue_delay: 5ms, "
      "timeout: 2s, workers: devices, max_workers: 2,\n"
      "      config: other.yml, warm_up: [{batch: 4, x.1: 8}]}\ndefault: b\n",
      file);
  ASSERT_EQ(map.models.size(), 2U);
  EXPECT_EQ(map.default_model, "b");
  EXPECT_EQ(map.models[0].name, "a");
  EXPECT_EQ(map.models[0].model, (folder.path() / "m.onnx").string());
  const ListedModel& b = map.models[1];
  EXPECT_EQ(b.model, "stored:1");
  EXPECT_EQ(b.version, "2");
  EXPECT_EQ(b.provider, "cuda,cpu");
  EXPECT_EQ(b.strict, Strictness::nodes);
  EXPECT_TRUE(b.pinned);
  EXPECT_EQ(b.config, folder.path() / "other.yml");
  EXPECT_EQ(b.serving.batch_size, 4);
  EXPECT_EQ(b.serving.max_batch_cost, 5'000'000'000);
  EXPECT_THAT(b.serving.padding,
              testing::Optional(testing::ElementsAre(testing::Pair("x", "-1"), testing::Pair("y", "0.5"))));
  EXPECT_EQ(b.serving.max_queue, 3U);
  EXPECT_EQ(b.serving.max_queue_delay, 5ms);
  EXPECT_EQ(b.serving.timeout, 2s);
  EXPECT_EQ(b.serving.workers, "devices");
  EXPECT_EQ(b.serving.max_workers, 2U);
  ASSERT_EQ(b.serving.warm_up.size(), 1U);
  EXPECT_EQ(b.serving.warm_up[0][1], (std::pair<std::string, std::int64_t>("x.1", 8)));

  const ModelsFile list = parse_models_file("models: [{name: a, model: m.onnx}]", file);
  EXPECT_EQ(list.models[0].model, map.models[0].model);
}

TEST(ModelsFile, HasTheLimitsOfModels) {
  const ModelsFile list = parse_models_file(
      "models:\n  a: {model: m, limits: {memory: 2KB, processors: 3, requests_per_minute: 4, tokens_per_minute: 5,\n"
      "      tokens_per_day: 6, requests_in_flight: 7}, weight: 400}\n  b: m\n",
      "models.yml");
  EXPECT_EQ(list.models[0].limits, (ModelLimits{.memory_bytes = 2000,
                                                .processors = 3,
                                                .requests_per_minute = 4,
                                                .tokens_per_minute = 5,
                                                .tokens_per_day = 6,
                                                .requests_in_flight = 7}));
  EXPECT_EQ(list.models[0].weight, 400);
  EXPECT_FALSE(list.models[1].weight);
  EXPECT_EQ(list.models[1].limits, ModelLimits());
  EXPECT_TRUE(given_limits(list.models[1].limits).empty());
  EXPECT_EQ(given_limits(list.models[0].limits).size(), 6);
}

TEST(ModelsFile, SaysWhatIsWrong) {
  struct Row {
    const char* text;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {"", "the file is empty"},
           {"models:", "'models' is missing"},
           {"models: x", "1:9: 'models' is 'x'; a list of objects with name and model, or a map of names to models"},
           {"models: {a: {}}", "'models.a.model' is missing"},
           {"models: {a: {model: m, port: 1}}", "unknown key 'models.a.port'"},
           {"models: {a: {model: m, max_batch_cost: 0}}", "'models.a.max_batch_cost' is '0'; a whole number from 1"},
           {"models: {a: {model: m, padding: {x: zero}}}", "'models.a.padding.x' is 'zero'; a number"},
           {"models: {a: {model: m, workers: 0}}", "'models.a.workers' is '0'"},
           {"models: {a: {model: m, timeout: never}}", "'models.a.timeout' is 'never'"},
           {"models: [{model: m}]", "'models[0].name' is missing"},
           {"models: {a: ''}", "'model' is empty"},
           {"models: {a: m}\ndefault: b", "2:1: 'default' is 'b', which is none of the models"},
           {"models: {a: m, a: n}", "the key 'a' is given twice"},
           {"models: {a: '${GPUX_NO_SUCH_VARIABLE}'}", "GPUX_NO_SUCH_VARIABLE"},
       }) {
    SCOPED_TRACE(row.text);
    try {
      (void)parse_models_file(row.text, "models.yml");
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(row.message));
    }
  }
}

// The indented block of docs/serving.md that begins with "default:".
TEST(ModelsFile, IsWhatTheDocumentsShow) {
  std::ifstream document(std::string(GPUX_SOURCE_DIR) + "/docs/serving.md");
  std::string text;
  for (std::string line; std::getline(document, line);) {
    const bool begins = text.empty() && line.starts_with("    default:");
    if (begins || (!text.empty() && line.starts_with("    "))) {
      text += line.substr(4) + "\n";
    } else if (!text.empty()) {
      break;
    }
  }
  ASSERT_THAT(text, HasSubstr("warm_up"));
  EXPECT_EQ(parse_models_file(text, "models.yml").models.size(), 2U);
}

}  // namespace
}  // namespace gpux
