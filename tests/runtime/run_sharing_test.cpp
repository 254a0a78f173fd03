// Whether requests may share runs: the decision, the trial on models written as functions, and what is kept of it.
#include "runtime/sharing/run_sharing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/files.h"
#include "base/recorded_disk.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "runtime/cpu_runtime.h"
#include "runtime/scheduling/batch.h"
#include "runtime/sharing/kept_trials.h"
#include "runtime/sharing/sharing_trial.h"
#include "runtime/sharing/trial_inputs.h"
#include "runtime/sharing/trial_memory.h"

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using Outcome = SharingTrial::Outcome;
using Source = RunSharing::Source;

// A number is a fixed size, "?" a free one without a name.
SignatureEntry entry(const std::string& name, ElementType type, const std::vector<std::string>& dimensions) {
  SignatureEntry made;
  made.name = name;
  made.type.element = type;
  made.type.dimensions.emplace();
  for (const std::string& text : dimensions) {
    const bool fixed = text.front() >= '0' && text.front() <= '9';
    made.type.dimensions->push_back({fixed ? std::optional<std::int64_t>(std::stoll(text)) : std::nullopt,
                                     fixed || text == "?" ? std::string() : text});
  }
  return made;
}

Signature signature(std::vector<SignatureEntry> inputs, std::vector<SignatureEntry> outputs) {
  return {std::move(inputs), std::move(outputs)};
}

Signature x_to_y() {
  return signature({entry("x", ElementType::float32, {"n", "3"})}, {entry("y", ElementType::float32, {"n", "3"})});
}

TEST(RunSharing, NamesWhatTheSignatureRulesOut) {
  const auto f = [](const std::vector<std::string>& dimensions) {
    return entry("v", ElementType::float32, dimensions);
  };
  SignatureEntry sequence = f({"n"});
  sequence.type.kind = ValueKind::sequence;
  SignatureEntry no_rank = f({"n"});
  no_rank.type.dimensions.reset();

  struct Case {
    Signature signature;
    const char* first_axis;
    const char* names;
  };

  const Case cases[] = {
      {signature({f({"n", "3"})}, {f({"n"})}), "", ""},
      {signature({f({"?", "3"})}, {f({"?"})}), "", ""},
      {signature({}, {f({"n"})}), "no input", ""},
      {signature({f({"2", "3"})}, {f({"n"})}), "input 'v' is float32[2, 3], whose first dimension is fixed", "'2'"},
      {signature({f({"n"})}, {f({})}), "output 'v' is float32[], which has no first dimension", ""},
      {signature({f({"n"})}, {sequence}), "which has no rows", ""},
      {signature({no_rank}, {f({"n"})}), "not declared", ""},
      {signature({f({"n"})}, {f({"m"})}), "",
       "output 'v' is float32[m], and the first dimension of others is called 'n'"},
      {signature({f({"n", "3"})}, {f({"n", "n"})}), "", "output 'v' is float32[n, n]: dimension 1 would grow"},
      {signature({f({"n", "3", "n"})}, {f({"n"})}), "", "input 'v' is float32[n, 3, n]: dimension 2 would grow"},
      // Names that converters make up, or none, contradict nothing: a trial decides.
      {signature({f({"unk__12", "3"}), f({"unk__13", "4"})}, {f({"unk__214", "unk__215"})}), "", ""},
      {signature({f({"n", "3"})}, {f({"Gemmoutput_dim_0", "5"})}), "", ""},
      {signature({f({"p2o.DynamicDimension.0", "3"})}, {f({"p2o.DynamicDimension.1"})}), "", ""},
      {signature({f({"n", "3"})}, {f({"?", "5"})}), "", ""},
      {signature({f({"?", "3"}), f({"n", "3"})}, {f({"m"})}), "",
       "output 'v' is float32[m], and the first dimension of others is called 'n'"},
      {signature({f({"unk__12", "3"})}, {f({"unk__13", "unk__12"})}), "",
       "output 'v' is float32[unk__13, unk__12]: dimension 1 would grow"},
  };
  for (const Case& c : cases) {
    const std::string first = first_axis_obstacle(c.signature);
    const std::string names = dimension_name_obstacle(c.signature);
    EXPECT_EQ(first.empty(), *c.first_axis == 0) << first;
    EXPECT_THAT(first, HasSubstr(c.first_axis));
    if (!first.empty()) continue;
    EXPECT_EQ(names.empty(), *c.names == 0) << names;
    EXPECT_THAT(names, HasSubstr(c.names));
  }
}

TEST(RunSharing, KnowsNamesThatConvertersMakeUp) {
  for (const char* name : {"", "?", "None", "unk__0", "unk__214", "DynamicDimension.3", "p2o.DynamicDimension.0",
                           "Gemmoutput_dim_0", "Reshapelast_hidden_state_dim_12"}) {
    EXPECT_FALSE(has_telling_name({.size = {}, .name = name})) << name;
  }
  for (const char* name : {"n", "batch", "batch_size", "N", "s0", "unk__", "unk__a", "my_unk__1", "dim_0", "_dim_",
                           "image_dim", "3 * batch", "DynamicDimension."}) {
    EXPECT_TRUE(has_telling_name({.size = {}, .name = name})) << name;
  }
}

TEST(RunSharing, IsNotTriedWhereContentsDecide) {
  const onnx::InputFlow by_content{.reaches_outputs = true, .content_operator = "StringSplit", .foreign_operator = {}};
  const onnx::InputFlow foreign{.reaches_outputs = true, .content_operator = {}, .foreign_operator = "own::Find"};
  const auto with_output = [](const std::vector<std::string>& dimensions, ElementType input = ElementType::float32) {
    return signature({entry("x", input, {"n", "length"})}, {entry("y", ElementType::float32, dimensions)});
  };
  EXPECT_THAT(content_obstacle(x_to_y(), {}), IsEmpty());
  EXPECT_THAT(content_obstacle(x_to_y(), by_content),
              HasSubstr("StringSplit works by what the requests of a run hold"));
  EXPECT_THAT(content_obstacle(with_output({"n", "3"}), foreign), IsEmpty());
  EXPECT_THAT(content_obstacle(with_output({"n", "length"}), foreign), IsEmpty());
  for (const char* free : {"?", "found", "unk__3"}) {
    EXPECT_THAT(content_obstacle(with_output({"n", free}), foreign),
                HasSubstr("own::Find is a custom operator that may decide over dimension 1 of output 'y'"))
        << free;
  }
  EXPECT_THAT(content_obstacle(with_output({"n", "3"}, ElementType::string), foreign),
              HasSubstr("own::Find is a custom operator that works on texts"));
}

TEST(RunSharing, NamesOperatorsThatRuleItOut) {
  EXPECT_THAT(operator_obstacle({{"MatMul", 3}, {"QLinearConv", 1}, {"QuantizeLinear", 2}}), IsEmpty());
  for (const char* name :
       {"DynamicQuantizeLinear", "com.microsoft::DynamicQuantizeMatMul", "com.microsoft::DynamicQuantizeLSTM",
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}) {
    EXPECT_THAT(operator_obstacle({{"MatMul", 3}, {name, 1}}), HasSubstr(name));
  }
}

TEST(RunSharing, KnowsOperatorsThatMayAnswerDifferentlyEachTime) {
  EXPECT_THAT(repetition_obstacle({{"MatMul", 3},
                                   {"DynamicQuantizeLinear", 1},
                                   {"ai.onnx.ml::LabelEncoder", 1},
                                   {"com.microsoft::Attention", 2}}),
              IsEmpty());
  for (const char* name : {"RandomNormal", "RandomUniformLike", "Multinomial", "Bernoulli", "com.microsoft::Sampling",
                           "Dropout", "com.microsoft::BiasDropout", "own::Find", "ai.onnx.contrib::Tokenizer"}) {
    EXPECT_THAT(repetition_obstacle({{"MatMul", 3}, {name, 1}}), HasSubstr(name));
  }
}

TEST(RunSharing, DecidesInTheOrderOfItsSources) {
  const SharingFacts nothing;
  EXPECT_EQ(decide_without_trial(nothing), std::nullopt);
  SharingFacts all{.first_axis = "fixed",
                   .dimension_names = "names",
                   .operators = "random",
                   .contents = "sizes",
                   .setting_from = "serving"};

  struct Case {
    bool first_axis, names, operators, contents;
    std::optional<BatchAxis> setting;
    std::optional<std::pair<bool, Source>> decision;
  };

  using enum BatchAxis;
  const Case cases[] = {
      {true, true, true, true, none, {{false, Source::setting}}},
      {false, true, true, true, none, {{false, Source::setting}}},
      {false, false, false, false, none, {{false, Source::setting}}},
      {false, true, true, true, zero, {{true, Source::setting}}},
      {false, false, false, false, zero, {{true, Source::setting}}},
      {true, true, true, true, {}, {{false, Source::signature}}},
      {false, true, true, true, {}, {{false, Source::signature}}},
      {false, false, true, true, {}, {{false, Source::graph}}},
      {false, false, false, true, {}, {{false, Source::graph}}},
      {false, false, false, false, {}, {}},
  };
  for (const Case& c : cases) {
    SharingFacts facts = all;
    if (!c.first_axis) facts.first_axis.clear();
    if (!c.names) facts.dimension_names.clear();
    if (!c.operators) facts.operators.clear();
    if (!c.contents) facts.contents.clear();
    facts.setting = c.setting;
    const std::optional<RunSharing> decision = decide_without_trial(facts);
    ASSERT_EQ(decision.has_value(), c.decision.has_value());
    if (!decision) continue;
    EXPECT_EQ(std::pair(decision->shared, decision->source), *c.decision);
    EXPECT_FALSE(decision->reason.empty());
  }

  all.setting = zero;
  for (const auto& [from, code] :
       {std::pair("--batch-axis", ErrorCode::usage), std::pair("serving.batch_axis", ErrorCode::invalid_config)}) {
    all.setting_from = from;
    try {
      (void)decide_without_trial(all);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.message(), HasSubstr("is 0, but requests of this model cannot be joined"));
    }
  }
}

TEST(RunSharing, SharesAfterATrialOnlyWhereAllAnswersWereEqual) {
  for (const Outcome outcome : {Outcome::equal, Outcome::different, Outcome::changing, Outcome::constant,
                                Outcome::failed, Outcome::out_of_time}) {
    const RunSharing decision = decide_by_trial({.outcome = outcome, .detail = "why"});
    EXPECT_EQ(decision.shared, outcome == Outcome::equal);
    const bool shows = outcome == Outcome::equal || outcome == Outcome::different || outcome == Outcome::changing;
    EXPECT_EQ(decision.source, shows ? Source::trial : Source::not_proven);
    EXPECT_FALSE(decision.reason.empty());
  }
  EXPECT_EQ(to_line({true, Source::trial, "all equal"}), "requests share runs (trial): all equal");
  EXPECT_EQ(to_line({false, Source::not_proven, "no \"time\""}), "requests run one by one (not-proven): no \"time\"");
  EXPECT_EQ(to_json({false, Source::single_run, "a \"b\""}),
            R"({"shared":false,"source":"single-run","reason":"a \"b\""})");
}

// A model of x float32[n, 3] and y float32[n, 3].
using Rows = std::vector<std::array<float, 3>>;
using Model = std::function<Rows(const Rows&)>;

NamedValues answer_of(const Model& model, const NamedValues& inputs) {
  const Tensor& x = *inputs.front().second.tensor();
  Rows rows(static_cast<std::size_t>(x.shape()[0]));
  for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(x.as<float>().begin() + 3 * i, 3, rows[i].begin());
  rows = model(rows);
  Tensor y = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(rows.size()), 3});
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(rows[i], y.mutable_as<float>().begin() + 3 * i);
  return {{"y", y}};
}

SharingTrial trial_of(const Model& model, int* runs = nullptr) {
  return try_sharing(x_to_y(), {}, [&](const NamedValues& inputs, std::chrono::nanoseconds) {
    if (runs != nullptr) ++*runs;
    return answer_of(model, inputs);
  });
}

Rows each(const Rows& rows, const std::function<float(float)>& f) {
  Rows made = rows;
  for (auto& row : made) {
    for (float& value : row) value = f(value);
  }
  return made;
}

float extreme(const Rows& rows, bool largest) {
  float found = rows.front()[0];
  for (const auto& row : rows) {
    for (const float value : row) found = largest ? std::max(found, value) : std::min(found, value);
  }
  return found;
}

float sum_of(const Rows& rows) {
  float sum = 0;
  for (const auto& row : rows) sum += row[0] + row[1] + row[2];
  return sum;
}

TEST(SharingTrial, FindsModelsWhoseRowsAreAlone) {
  int runs = 0;
  for (const Model& model :
       {Model([](const Rows& rows) { return each(rows, [](float x) { return 2 * x + 1; }); }),
        Model([](const Rows& rows) { return each(rows, [](float x) { return std::sqrt(x); }); }),
        Model([](const Rows& rows) { return each(rows, [](float x) { return x > 0 ? 1.F : 0.F; }); }),
        // Rounding differs with the number of rows.
        Model([](const Rows& rows) {
          const float noise = 1 + 1e-6F * static_cast<float>(rows.size());
          return each(rows, [&](float x) { return x * noise; });
        })}) {
    const SharingTrial trial = trial_of(model, &runs);
    EXPECT_EQ(trial.outcome, Outcome::equal) << trial.detail;
    EXPECT_EQ(trial.shared_runs, 5);
    EXPECT_EQ(trial.max_rows, 30);
  }
  EXPECT_LT(runs, 4 * 20);
}

TEST(SharingTrial, FindsEachDependenceBetweenRows) {
  const std::vector<std::pair<const char*, Model>> models{
      {"mean",
       [](const Rows& r) { return each(r, [&](float x) { return x - sum_of(r) / static_cast<float>(r.size()); }); }},
      {"sum", [](const Rows& r) { return each(r, [&](float x) { return x + 0.01F * sum_of(r); }); }},
      {"maximum", [](const Rows& r) { return each(r, [&](float x) { return x - extreme(r, true); }); }},
      {"large maximum",
       [](const Rows& r) { return each(r, [&](float x) { return x / std::max(50.F, extreme(r, true)); }); }},
      {"minimum", [](const Rows& r) { return each(r, [&](float x) { return x - extreme(r, false); }); }},
      {"low minimum",
       [](const Rows& r) { return each(r, [&](float x) { return x - std::min(-50.F, extreme(r, false)); }); }},
      {"first row", [](const Rows& r) { return each(r, [&](float x) { return x + r.front()[0]; }); }},
      {"last row", [](const Rows& r) { return each(r, [&](float x) { return x + r.back()[0]; }); }},
      {"number of rows",
       [](const Rows& r) { return each(r, [&](float x) { return x + static_cast<float>(r.size()); }); }},
      {"rows above 8", [](const Rows& r) { return each(r, [&](float x) { return r.size() > 8 ? -x : x; }); }},
      {"rows above 20", [](const Rows& r) { return each(r, [&](float x) { return r.size() > 20 ? -x : x; }); }},
      {"order",
       [](const Rows& r) {
         Rows sorted = r;
         std::ranges::sort(sorted);
         return sorted;
       }},
      {"reverse", [](const Rows& r) { return Rows(r.rbegin(), r.rend()); }},
      {"row before",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 1; i < r.size(); ++i) made[i][0] += r[i - 1][0];
         return made;
       }},
      {"row behind",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 0; i + 1 < r.size(); ++i) made[i][0] += r[i + 1][0];
         return made;
       }},
      {"large row before",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 1; i < r.size(); ++i) made[i][0] += std::max(0.F, r[i - 1][0] - 50);
         return made;
       }},
      {"equal row two before",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 2; i < r.size(); ++i) {
           if (r[i] == r[i - 2]) made[i][0] = 0;
         }
         return made;
       }},
      {"ninth row before",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 9; i < r.size(); ++i) made[i][0] += r[i - 9][0];
         return made;
       }},
      {"distinct rows",
       [](const Rows& r) {
         Rows made;
         for (const auto& row : r) {
           if (std::ranges::find(made, row) == made.end()) made.push_back(row);
         }
         return made;
       }},
      {"positive rows",
       [](const Rows& r) {
         Rows made;
         for (const auto& row : r) {
           if (row[0] > 0) made.push_back(row);
         }
         return made;
       }},
      {"at most 16 rows",
       [](const Rows& r) { return Rows(r.begin(), r.begin() + std::min<std::ptrdiff_t>(16, std::ssize(r))); }},
      {"all rows zero", [](const Rows& r) { return each(r, [&](float x) { return extreme(r, true) > 90 ? 0 : x; }); }},
      {"repeated rows",
       [](const Rows& r) {
         Rows made = r;
         for (std::size_t i = 0; i < r.size(); ++i) made[i][0] = static_cast<float>(std::ranges::count(r, r[i]));
         return made;
       }},
      {"a failure of more than one row", [](const Rows& r) {
         if (r.size() > 4) throw Error(ErrorCode::internal, "too many");
         return r;
       }}};
  for (const auto& [name, model] : models) {
    const SharingTrial trial = trial_of(model);
    // The model that fails takes no companion of five rows.
    const bool fails = std::string_view(name).starts_with("a failure");
    EXPECT_EQ(trial.outcome, fails ? Outcome::failed : Outcome::different) << name;
    EXPECT_FALSE(trial.detail.empty()) << name;
  }
}

TEST(SharingTrial, ProvesNothingByConstantOrChangingOutputs) {
  EXPECT_EQ(trial_of([](const Rows& r) { return each(r, [](float) { return 1.F; }); }).outcome, Outcome::constant);
  EXPECT_EQ(trial_of([](const Rows& r) { return each(r, [](float) { return std::nanf(""); }); }).outcome,
            Outcome::constant);
  int calls = 0;
  EXPECT_EQ(trial_of([&](const Rows& r) {
              return each(r, [&](float x) { return x + static_cast<float>(++calls); });
            }).outcome,
            Outcome::changing);
  const SharingTrial failed = trial_of([](const Rows&) -> Rows { throw Error(ErrorCode::internal, "no such word"); });
  EXPECT_EQ(failed.outcome, Outcome::failed);
  EXPECT_EQ(failed.detail, "no such word");
  int runs = 0;
  const SharingTrial full =
      trial_of([](const Rows&) -> Rows { throw Error(ErrorCode::resource_exhausted, "full"); }, &runs);
  EXPECT_EQ(full.outcome, Outcome::failed);
  EXPECT_EQ(runs, 1);
}

TEST(SharingTrial, LooksForValuesThatTheModelTakes) {
  // Only decimals from 0 to 1.
  const Model narrow = [](const Rows& r) {
    if (extreme(r, true) > 1 || extreme(r, false) < 0) throw Error(ErrorCode::invalid_input, "not a share");
    return each(r, [](float x) { return x * x; });
  };
  EXPECT_EQ(trial_of(narrow).outcome, Outcome::equal);
  const Model narrow_mean = [&](const Rows& r) {
    (void)narrow(r);
    return each(r, [&](float x) { return x - sum_of(r) / static_cast<float>(3 * r.size()); });
  };
  EXPECT_EQ(trial_of(narrow_mean).outcome, Outcome::different);

  // Only indices into a table of two, as token types are.
  const auto lookup = [](std::int64_t most) {
    return [most](const NamedValues& inputs, std::chrono::nanoseconds) -> NamedValues {
      const Tensor& ids = *inputs.front().second.tensor();
      Tensor y = Tensor::allocate(ElementType::float32, ids.shape());
      for (std::int64_t i = 0; i < ids.element_count(); ++i) {
        const std::int64_t id = ids.as<std::int64_t>()[static_cast<std::size_t>(i)];
        if (id > most) throw Error(ErrorCode::invalid_input, "index out of range");
        y.mutable_as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(id);
      }
      return {{"y", y}};
    };
  };
  const Signature ids =
      signature({entry("ids", ElementType::int64, {"n", "seq"})}, {entry("y", ElementType::float32, {"n", "seq"})});
  EXPECT_EQ(try_sharing(ids, {}, lookup(6)).outcome, Outcome::equal);
  EXPECT_EQ(try_sharing(ids, {}, lookup(1)).outcome, Outcome::equal);
  EXPECT_EQ(try_sharing(ids, {}, lookup(0)).outcome, Outcome::failed);
}

TEST(SharingTrial, LooksForSizesThatTheModelTakes) {
  const Signature image = signature({entry("x", ElementType::float32, {"n", "3", "height", "width"})},
                                    {entry("y", ElementType::float32, {"n"})});
  std::set<Shape> tried;
  const auto takes = [&](std::int64_t side) {
    return [&tried, side](const NamedValues& inputs, std::chrono::nanoseconds) -> NamedValues {
      const Tensor& x = *inputs.front().second.tensor();
      tried.insert(Shape(x.shape().begin() + 1, x.shape().end()));
      if (x.shape()[2] % side != 0 || x.shape()[3] % side != 0) throw Error(ErrorCode::internal, "a size does not fit");
      Tensor y = Tensor::allocate(ElementType::float32, {x.shape()[0]});
      const std::int64_t row = x.element_count() / x.shape()[0];
      for (std::size_t i = 0; i < y.as<float>().size(); ++i) {
        y.mutable_as<float>()[i] = x.as<float>()[i * static_cast<std::size_t>(row)];
      }
      return {{"y", y}};
    };
  };
  EXPECT_EQ(try_sharing(image, {}, takes(1)).outcome, Outcome::equal);
  EXPECT_EQ(tried.size(), 1U);
  EXPECT_EQ(try_sharing(image, {}, takes(32)).outcome, Outcome::equal);
  EXPECT_EQ(try_sharing(image, {}, takes(224)).outcome, Outcome::equal);
  EXPECT_EQ(try_sharing(image, {}, takes(300)).outcome, Outcome::failed);
  EXPECT_EQ(try_sharing(image, {{{"height", 300}, {"x.3", 600}}}, takes(300)).outcome, Outcome::equal);
}

TEST(SharingTrial, CoversInputsThatMayBeLeftOut) {
  Signature with_default = x_to_y();
  with_default.inputs.push_back(entry("shift", ElementType::float32, {"n", "3"}));
  with_default.inputs.back().required = false;
  const auto run = [](const NamedValues& inputs, std::chrono::nanoseconds) {
    // Mixes rows only where the second input is given.
    return answer_of([&](const Rows& r) { return inputs.size() == 1 ? r : Rows(r.rbegin(), r.rend()); }, inputs);
  };
  EXPECT_EQ(try_sharing(with_default, {}, run).outcome, Outcome::different);
}

TEST(SharingTrial, KeepsToItsTime) {
  std::chrono::steady_clock::time_point now{};
  int runs = 0;
  const auto of_cost = [&](std::chrono::nanoseconds per_row) {
    return [&, per_row](const NamedValues& inputs, std::chrono::nanoseconds limit) {
      ++runs;
      const auto cost = per_row * inputs.front().second.tensor()->shape()[0];
      now += std::min(cost, limit);
      if (cost > limit) throw Error(ErrorCode::deadline_exceeded, "late");
      return answer_of([](const Rows& r) { return r; }, inputs);
    };
  };
  const auto clock = [&] { return now; };
  const TrialLimits limits{.time = 5s};
  EXPECT_EQ(try_sharing(x_to_y(), {}, of_cost(20ms), limits, clock).max_rows, 30);
  // No time for the longest run, which is left out then.
  const SharingTrial shorter = try_sharing(x_to_y(), {}, of_cost(90ms), limits, clock);
  EXPECT_EQ(shorter.outcome, Outcome::equal);
  EXPECT_EQ(shorter.max_rows, 9);
  // Each run costs the same, whatever its rows.
  const auto of_fixed_cost = [&](const NamedValues& inputs, std::chrono::nanoseconds) {
    now += 250ms;
    return answer_of([](const Rows& r) { return r; }, inputs);
  };
  EXPECT_EQ(try_sharing(x_to_y(), {}, of_fixed_cost, limits, clock).max_rows, 30);
  for (const auto cost : {200ms, 2000ms, 60000ms}) {
    runs = 0;
    const auto start = now;
    const SharingTrial trial = try_sharing(x_to_y(), {}, of_cost(cost), limits, clock);
    EXPECT_EQ(trial.outcome, Outcome::out_of_time);
    EXPECT_LE(now - start, 5s);
    EXPECT_LE(runs, 4);
    EXPECT_THAT(trial.detail, HasSubstr("5 s"));
  }
}

TEST(TrialInputs, GivesEachFreeDimensionASizeThatIsNoNumberOfRows) {
  const Signature made = signature(
      {entry("ids", ElementType::int64, {"batch", "seq"}), entry("mask", ElementType::int64, {"batch", "past + seq"}),
       entry("past", ElementType::float32, {"batch", "4", "past", "8"}),
       entry("free", ElementType::float32, {"batch", "?"}), entry("next", ElementType::float32, {"batch", "seq + 1"})},
      {});
  const RowShapes first = guess_row_shapes(made, {}).front();
  EXPECT_EQ(first, (RowShapes{{7}, {20}, {4, 13, 8}, {17}, {8}}));
  EXPECT_EQ(guess_row_shapes(made, {{{"seq", 40}, {"free.1", 3}}}).front(),
            (RowShapes{{40}, {47}, {4, 7, 8}, {3}, {41}}));
  // Nothing to guess.
  EXPECT_EQ(guess_row_shapes(x_to_y(), {}), (std::vector<RowShapes>{{{3}}}));
  const Signature large = signature({entry("x", ElementType::float32, {"n", "a", "b", "c", "d"})}, {});
  EXPECT_EQ(guess_row_shapes(large, {}).size(), 2U);
}

TEST(TrialInputs, MakesTheSameRequestAgainAndAnotherOfAnotherSeed) {
  const Signature made = signature(
      {entry("x", ElementType::float32, {"n", "4"}), entry("ids", ElementType::int64, {"n", "16"}),
       entry("attention_mask", ElementType::int64, {"n", "16"}), entry("half", ElementType::float16, {"n", "16"}),
       entry("flags", ElementType::boolean, {"n", "16"}), entry("words", ElementType::string, {"n", "16"})},
      {});
  const auto request = [&](std::uint64_t seed, TrialNumbers numbers = TrialNumbers::varied) {
    return make_request(made, guess_row_shapes(made, {}).front(), 2, numbers, Magnitude::usual, seed, false);
  };
  const NamedValues one = request(1), again = request(1), other = request(2);
  for (std::size_t i = 0; i < one.size(); ++i) {
    const Tensor &a = *one[i].second.tensor(), &b = *again[i].second.tensor(), &c = *other[i].second.tensor();
    if (a.type() == ElementType::string) {
      EXPECT_TRUE(std::ranges::equal(a.strings(), b.strings()));
      EXPECT_FALSE(std::ranges::equal(a.strings(), c.strings()));
    } else {
      EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes())) << one[i].first;
      EXPECT_FALSE(std::ranges::equal(a.bytes(), c.bytes())) << one[i].first;
    }
  }
  const auto ids = one[1].second.tensor()->as<std::int64_t>(), mask = one[2].second.tensor()->as<std::int64_t>();
  EXPECT_LE(*std::ranges::max_element(ids), 6);
  EXPECT_GT(*std::ranges::max_element(ids), 1);
  EXPECT_EQ(*std::ranges::max_element(mask), 1);
  EXPECT_EQ(*std::ranges::min_element(mask), 0);
  const auto positive = request(1, TrialNumbers::positive)[1].second;
  EXPECT_EQ(*std::ranges::min_element(positive.tensor()->as<std::int64_t>()), 1);
}

class KeptTrials : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "gpux-trials-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    if (const char* home = ::getenv("GPUX_HOME")) home_ = home;
    ::setenv("GPUX_HOME", (folder_ / "home").c_str(), 1);
    write_file_atomically(folder_ / "model.onnx", std::string_view("weights"));
  }

  void TearDown() override {
    home_.empty() ? ::unsetenv("GPUX_HOME") : ::setenv("GPUX_HOME", home_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] TrialSubject subject() const {
    return {.weights = folder_ / "model.onnx", .steps = {}, .external_files = {}};
  }

  std::filesystem::path folder_;
  std::string home_;
};

TEST_F(KeptTrials, AreFoundByTheModelsContentAndWhatComputedThem) {
  EXPECT_FALSE(may_have_kept_trials(subject()));
  const std::filesystem::path file = kept_trials_file(subject());
  EXPECT_THAT(read_kept_trials(file), IsEmpty());
  const auto trial = [](const char* by, Outcome outcome) {
    return KeptTrial{.computed_by = by,
                     .provider = "cpu",
                     .runtime_version = "1.24.0",
                     .trial = {.outcome = outcome, .detail = "d", .shared_runs = 5, .max_rows = 30}};
  };
  {
    const test::RecordedDisk disk;
    keep_trial(file, trial("a", Outcome::equal));
    EXPECT_EQ(disk.risk_of_replaced(file), "");
  }
  keep_trial(file, trial("b", Outcome::different));
  keep_trial(file, trial("a", Outcome::changing));
  EXPECT_TRUE(may_have_kept_trials(subject()));
  const std::vector<KeptTrial> kept = read_kept_trials(file);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].computed_by, "b");
  EXPECT_EQ(kept[1].trial, trial("a", Outcome::changing).trial);
  for (int i = 0; i < 17; ++i) keep_trial(file, trial(std::to_string(i).c_str(), Outcome::constant));
  EXPECT_EQ(read_kept_trials(file).size(), 16U);

  write_file_atomically(folder_ / "model.onnx", std::string_view("Weights"));
  EXPECT_NE(kept_trials_file(subject()), file);
  write_file_atomically(file, std::string_view("{\"kind\": \"sharing-trials-1\", \"trials\": [{}]}"));
  EXPECT_THAT(read_kept_trials(file), IsEmpty());
  write_file_atomically(file, std::string_view("{"));
  EXPECT_THAT(read_kept_trials(file), IsEmpty());
}

TEST_F(KeptTrials, AreForgottenWhereFilesCannotBeReadOrWritten) {
  const TrialSubject gone{.weights = folder_ / "gone.onnx", .steps = {}, .external_files = {}};
  EXPECT_TRUE(kept_trials_file(gone).empty());
  EXPECT_THAT(read_kept_trials({}), IsEmpty());
  keep_trial({}, {});
  write_file_atomically(folder_ / "home", std::string_view("no folder"));
  keep_trial(kept_trials_file(subject()), {.computed_by = "a", .provider = "cpu", .runtime_version = "1", .trial = {}});
  EXPECT_FALSE(may_have_kept_trials(subject()));
}

TEST_F(KeptTrials, AreNotKeptWhereTimeOrMemoryDecided) {
  for (const Outcome outcome : {Outcome::equal, Outcome::different, Outcome::changing, Outcome::constant}) {
    EXPECT_TRUE(is_worth_keeping({.outcome = outcome}));
  }
  EXPECT_FALSE(is_worth_keeping({.outcome = Outcome::failed}));
  EXPECT_FALSE(is_worth_keeping({.outcome = Outcome::out_of_time}));
}

TEST_F(KeptTrials, AreThoseOfEarlierProcesses) {
  if (!std::filesystem::exists(GPUX_DEPS_DIR "/onnxruntime/lib")) GTEST_SKIP() << "no ONNX Runtime in " GPUX_DEPS_DIR;
  ::setenv("GPUX_ONNXRUNTIME", GPUX_DEPS_DIR "/onnxruntime/lib", 1);
  const auto load = [](const char* model, unsigned threads) {
    LoadOptions options;
    options.provider = "cpu";
    options.intra_threads = threads;
    return Runtime(test_model(model), options);
  };
  int attempts = 0;
  const auto asked = [&](const Runtime& runtime, const char* question, bool result) {
    return TrialMemory(runtime).holds(question, [&] {
      ++attempts;
      return result;
    });
  };
  const Runtime add = load("add", 1);
  EXPECT_TRUE(asked(add, "one", true));
  EXPECT_FALSE(asked(add, "two", false));
  EXPECT_EQ(attempts, 2);
  EXPECT_TRUE(asked(load("add", 1), "one", false));
  EXPECT_FALSE(asked(load("add", 1), "two", true));
  EXPECT_EQ(attempts, 2);
  EXPECT_FALSE(asked(load("add", 2), "one", false));
  EXPECT_FALSE(asked(load("scalar", 1), "one", false));
  EXPECT_EQ(attempts, 4);
  const auto fails = []() -> bool { throw Error(ErrorCode::resource_exhausted, "no memory"); };
  EXPECT_THROW((void)TrialMemory(add).holds("three", fails), Error);
  EXPECT_TRUE(asked(add, "three", true));
}

}  // namespace
}  // namespace gpux::runtime
