#include "server/models/model_repository.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "server/kept_spans.h"
#include "server/models/model_entry.h"
#include "server/models/probe.h"
#include "server/models/version_order.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelParts load(const std::string& name, const std::string& version, const ServingOptions& serving = {}) {
  LoadOptions options;
  options.provider = "cpu";
  Workers workers = load_workers({}, options, false, [](const LoadOptions& with) {
    return Runtime(std::string(GPUX_SOURCE_DIR) + "/tests/models/add.onnx", with);
  });
  return {.name = name, .version = version, .session = {std::move(workers), serving}};
}

// What there is to load, which a test may change while the repository lives.
struct Shelf {
  std::vector<ModelSource> sources;
  std::mutex mutex;

  void put(const std::string& name, const std::string& version, bool broken = false, const ModelAliases& aliases = {}) {
    const std::lock_guard lock(mutex);
    ModelSource source;
    source.name = name;
    source.version = version;
    source.aliases = aliases;
    source.load = [name, version, broken]() -> ModelParts {
      if (broken) throw Error(ErrorCode::invalid_model, "'/home/me/secret/model.onnx' cannot be used");
      return load(name, version);
    };
    source.fingerprint = [broken] { return broken ? "broken" : "good"; };
    std::erase_if(sources, [&](const ModelSource& old) { return old.name == name && old.version == version; });
    sources.push_back(std::move(source));
  }

  void take(const std::string& name, const std::string& version) {
    const std::lock_guard lock(mutex);
    std::erase_if(sources, [&](const ModelSource& old) { return old.name == name && old.version == version; });
  }

  ModelRepository::Sources look() {
    return [this] {
      const std::lock_guard lock(mutex);
      return sources;
    };
  }
};

template <typename Call>
std::optional<Error> wait_for(const Call& call) {
  std::promise<std::optional<Error>> promise;
  call([&](const std::optional<Error>& error) {
    // A copy would share its text, which ThreadSanitizer does not see the standard library count.
    promise.set_value(error ? std::optional(Error(error->code(), error->message())) : std::nullopt);
  });
  return promise.get_future().get();
}

std::optional<Error> load_again(ModelRepository& repository, const std::string& name,
                                ModelRepository::Deadline deadline = {}) {
  return wait_for([&](const ModelRepository::Done& done) { repository.load(name, deadline, done); });
}

std::optional<Error> unload(ModelRepository& repository, const std::string& name) {
  return wait_for([&](const ModelRepository::Done& done) { repository.unload(name, done); });
}

std::optional<Error> refresh(ModelRepository& repository) {
  return wait_for([&](const ModelRepository::Done& done) { repository.refresh(done); });
}

// The answer to a request for the model: its name, or the error.
std::future<std::string> ask(ModelRepository& repository, const std::string& name) {
  auto answer = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answered = answer->get_future();
  try {
    repository.use(
        name, "", [answer](const std::shared_ptr<ServedModel>& model) { answer->set_value(model->name()); },
        [answer](const Error& error) { answer->set_value(error.message()); });
  } catch (const Error& error) {
    answer->set_value(error.message());
  }
  return answered;
}

// The models that keep the server from being ready.
std::string not_ready(const ModelRepository& repository) {
  std::promise<std::string> missing;
  probe_all(repository, {}, [&](const std::string& names) { missing.set_value(names); });
  return missing.get_future().get();
}

bool is_ready(const ModelRepository& repository, const std::string& name) {
  std::promise<bool> ready;
  probe(repository, name, "", {}, [&](bool answered) { ready.set_value(answered); });
  return ready.get_future().get();
}

TEST(Versions, AreOrderedByTheirNumbers) {
  std::vector<std::string> versions{"1.10", "10", "2", "1.9", "latest", "1.9-rc2", "01", "1", "1.9-rc10"};
  std::sort(versions.begin(), versions.end(), version_less);
  EXPECT_THAT(versions, ElementsAre("01", "1", "1.9", "1.9-rc2", "1.9-rc10", "1.10", "2", "10", "latest"));
  EXPECT_FALSE(version_less("1", "1"));
}

TEST(ModelRepository, RecordsItsLoads) {
  Shelf shelf;
  shelf.put("m", "2");
  KeptSpans kept;
  RepositoryOptions options;
  options.tracer = std::make_shared<const Tracer>(kept.tracer());
  ModelRepository repository(shelf.look(), options);
  repository.load_all();
  shelf.put("m", "2", true);
  EXPECT_TRUE(load_again(repository, "m"));
  const auto loads = kept.requests();
  ASSERT_EQ(loads.size(), 2);
  const Span &good = loads[0].front(), &bad = loads[1].front();
  EXPECT_EQ(good.name, "load model");
  EXPECT_EQ(good.kind, SpanKind::internal);
  EXPECT_EQ(attribute_of(good, "gpux.model"), AttributeValue(std::string("m")));
  EXPECT_EQ(attribute_of(good, "gpux.model.version"), AttributeValue(std::string("2")));
  EXPECT_EQ(attribute_of(good, "gpux.load.result"), AttributeValue(std::string("succeeded")));
  EXPECT_FALSE(good.is_error);
  EXPECT_TRUE(bad.is_error);
  EXPECT_EQ(attribute_of(bad, "error.type"), AttributeValue(std::string("invalid_model")));
  // No paths of the machine.
  EXPECT_EQ(bad.error.find("secret"), std::string::npos) << bad.error;
}

TEST(ModelRepository, ServesTheHighestVersionThatIsReady) {
  Shelf shelf;
  shelf.put("m", "2");
  shelf.put("m", "10");
  shelf.put("other", "1");
  ModelRepository repository(shelf.look());
  EXPECT_THROW((void)repository.find("m", ""), Error);
  repository.load_all();
  EXPECT_EQ(repository.find("m", "")->version(), "10");
  EXPECT_EQ(repository.find("m", "2")->version(), "2");
  EXPECT_THAT(repository.versions("m"), ElementsAre("2", "10"));
  EXPECT_THAT(repository.names(), ElementsAre("m", "other"));
  try {
    (void)repository.find("m", "3");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.message(), HasSubstr("there is 2, 10"));
  }
}

TEST(ModelRepository, KeepsTheOldWhereTheNewFails) {
  Shelf shelf;
  shelf.put("m", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  const auto before = repository.find("m", "");
  shelf.put("m", "1", true);
  const auto error = load_again(repository, "m");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_model);
  EXPECT_EQ(error->message(), "'model.onnx' cannot be used");
  EXPECT_EQ(repository.find("m", ""), before);
  EXPECT_EQ(repository.index().front().state, ModelState::ready);
  EXPECT_EQ(repository.index().front().reason, "'model.onnx' cannot be used");

  shelf.put("m", "1");
  EXPECT_FALSE(load_again(repository, "m"));
  EXPECT_NE(repository.find("m", ""), before);
  EXPECT_EQ(repository.find("m", "")->shared_statistics(), before->shared_statistics());
}

TEST(ModelRepository, AnswersToTheAliasesOfWhatIsLoaded) {
  Shelf shelf;
  shelf.put("m", "1", false, {{"m:old"}, {}});
  shelf.put("m", "2", false, {{"m:new"}, {}});
  shelf.put("n", "1", false, {{"n:v1", "o"}, {}});
  shelf.put("o", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  EXPECT_EQ(repository.find("m:old", "")->version(), "1");
  EXPECT_EQ(repository.find("m:new", "")->version(), "2");
  EXPECT_EQ(repository.name_of("n:v1"), "n");
  EXPECT_EQ(repository.name_of("none"), "none");
  EXPECT_EQ(repository.find("o", "")->name(), "o") << "a name goes before an alias";
  EXPECT_THROW((void)repository.find("m:old", "2"), Error);

  // What is replaced keeps its aliases until its successor serves.
  shelf.put("n", "1", true, {{"n:v2"}, {}});
  EXPECT_TRUE(load_again(repository, "n:v1"));
  EXPECT_EQ(repository.find("n:v1", "")->name(), "n");
  EXPECT_THROW((void)repository.find("n:v2", ""), Error);
  shelf.put("n", "1", false, {{"n:v2"}, {}});
  EXPECT_FALSE(load_again(repository, "n:v1"));
  EXPECT_EQ(repository.find("n:v2", "")->name(), "n");
  EXPECT_THROW((void)repository.find("n:v1", ""), Error);

  // One of several versions is not loaded or unloaded alone.
  const auto refused = load_again(repository, "m:old");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::usage);
  EXPECT_THAT(refused->message(), HasSubstr("use the name 'm'"));
  const auto kept = unload(repository, "m:old");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->code(), ErrorCode::usage);
  EXPECT_THAT(repository.versions("m"), ElementsAre("1", "2"));

  // A model that is not known yet is found by its alias, too.
  shelf.put("p", "1", false, {{"p:v1"}, {}});
  EXPECT_FALSE(load_again(repository, "p:v1"));
  EXPECT_EQ(repository.find("p", "")->name(), "p");
  EXPECT_FALSE(unload(repository, "p:v1"));
  EXPECT_THAT(repository.names(), ElementsAre("m", "n", "o"));
  EXPECT_FALSE(load_again(repository, "p:v1"));
  EXPECT_THAT(repository.names(), ElementsAre("m", "n", "o", "p"));
}

// As of a folder of versions, where only the highest counts and its file may still be on its way.
TEST(ModelRepository, KeepsAVersionUntilItsSuccessorServes) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  const auto before = repository.find("m", "");
  shelf.put("m", "2", true);
  shelf.take("m", "1");
  for (const bool is_watched : {true, false}) {
    EXPECT_TRUE(is_watched ? refresh(repository) : load_again(repository, "m"));
    EXPECT_EQ(repository.find("m", ""), before);
    EXPECT_THAT(repository.versions("m"), ElementsAre("1"));
    EXPECT_EQ(repository.index().size(), 3U);
  }
  shelf.put("m", "2");
  EXPECT_FALSE(refresh(repository));
  EXPECT_EQ(repository.find("m", "")->version(), "2");
  EXPECT_EQ(repository.index().size(), 2U);

  // With all its versions a model is gone.
  shelf.take("m", "2");
  EXPECT_FALSE(refresh(repository));
  EXPECT_THROW((void)repository.find("m", ""), Error);
  EXPECT_THAT(repository.names(), ElementsAre("n"));
}

// An evicted version is served as soon as it is asked for.
TEST(ModelRepository, KeepsAnEvictedVersionUntilItsSuccessorServes) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  ASSERT_EQ(repository.index().front().state, ModelState::evicted);
  shelf.put("m", "2", true);
  shelf.take("m", "1");
  EXPECT_TRUE(refresh(repository));
  std::promise<std::string> served;
  repository.use(
      "m", "", [&](const std::shared_ptr<ServedModel>& model) { served.set_value(model->version()); },
      [&](const Error& error) { served.set_value(error.message()); });
  EXPECT_EQ(served.get_future().get(), "1");
}

TEST(ModelRepository, RefreshLoadsNewSourcesAndDropsVanishedOnes) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  EXPECT_FALSE(unload(repository, "n"));
  const auto before = repository.find("m", "");
  shelf.put("m", "2");
  EXPECT_FALSE(refresh(repository));
  EXPECT_EQ(repository.find("m", "")->version(), "2");
  EXPECT_EQ(repository.find("m", "1"), before);  // unchanged, so not loaded again
  // What was unloaded on request stays so.
  EXPECT_THROW((void)repository.find("n", ""), Error);
  shelf.take("m", "1");
  shelf.take("n", "1");
  EXPECT_FALSE(refresh(repository));
  EXPECT_THAT(repository.versions("m"), ElementsAre("2"));
  EXPECT_EQ(repository.index().size(), 1U);
  EXPECT_TRUE(unload(repository, "n"));
}

TEST(ModelRepository, EvictsWhatIsIdle) {
  Shelf shelf;
  for (const char* name : {"pinned", "idle", "asked", "kept"}) shelf.put(name, "1");
  shelf.sources.front().pinned = true;
  ModelRepository repository(shelf.look(), {.idle_unload = std::chrono::milliseconds(400)});
  repository.load_all();
  EXPECT_TRUE(repository.unloads_idle_models());
  repository.set_idle_limit("kept", "", std::chrono::milliseconds::max());
  repository.set_idle_limit("asked", "", std::chrono::milliseconds(0));
  EXPECT_FALSE(repository.idle_time_left("pinned", "1"));
  EXPECT_FALSE(repository.idle_time_left("kept", "1"));
  EXPECT_EQ(repository.idle_time_left("asked", "1"), std::chrono::milliseconds(0));
  EXPECT_THROW(repository.set_idle_limit("none", "", std::chrono::milliseconds(0)), Error);
  const auto is_loaded = [&](const std::string& name) {
    const auto models = repository.models();
    return std::ranges::any_of(models, [&](const auto& model) { return model->name() == name; });
  };
  const auto waits_until_gone = [&](const std::string& name) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (is_loaded(name) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return !is_loaded(name);
  };
  EXPECT_TRUE(waits_until_gone("asked"));
  EXPECT_TRUE(waits_until_gone("idle"));
  EXPECT_TRUE(is_loaded("pinned"));
  EXPECT_TRUE(is_loaded("kept"));
  for (const ModelStatus& status : repository.index()) {
    if (status.name == "idle") EXPECT_EQ(status.reason, "unloaded, as it was idle; the next request loads it again");
  }
  // What a request asked for holds until the model is unloaded: it stays now as long as the others.
  std::promise<std::string> loaded;
  repository.use(
      "asked", "", [&](const std::shared_ptr<ServedModel>& model) { loaded.set_value(model->name()); },
      [&](const Error& error) { loaded.set_value(error.message()); });
  EXPECT_EQ(loaded.get_future().get(), "asked");
  EXPECT_GT(repository.idle_time_left("asked", "1").value_or(std::chrono::milliseconds(0)).count(), 0);
  EXPECT_TRUE(waits_until_gone("asked"));
}

TEST(ModelRepository, LoadsByNameWhatIsOnDemand) {
  Shelf shelf;
  shelf.put("there", "1");
  shelf.put("asked", "1", false, {.names = {"asked:latest"}, .digest = {}});
  shelf.put("broken", "1", true);
  for (ModelSource& source : shelf.sources) {
    source.on_demand = source.name != "there";
    source.required = false;
  }
  ModelRepository repository(shelf.look(), {.loads_by_name = true});
  repository.load_all();
  EXPECT_FALSE(refresh(repository));
  EXPECT_THAT(repository.names(), ElementsAre("there")) << "nothing but what is asked for is loaded";
  const auto unloaded = [&] {
    std::vector<std::string> names;
    for (const ModelSource& source : repository.on_demand()) names.push_back(source.name);
    return names;
  };
  EXPECT_THAT(unloaded(), ElementsAre("asked", "broken"));
  const auto use = [&](const char* name, const char* version) {
    std::promise<std::string> outcome;
    repository.use(
        name, version, [&](const std::shared_ptr<ServedModel>& model) { outcome.set_value(model->name()); },
        [&](const Error& error) { outcome.set_value(error.message()); });
    return outcome.get_future().get();
  };
  EXPECT_FALSE(repository.use_ready("asked:latest", ""));
  EXPECT_EQ(use("asked:latest", ""), "asked");
  EXPECT_EQ(use("asked", "1"), "asked");
  EXPECT_THAT(unloaded(), ElementsAre("broken"));
  EXPECT_THAT(use("none", ""), HasSubstr("no model 'none'"));
  EXPECT_EQ(use("broken", ""), "'model.onnx' cannot be used");
}

TEST(ModelRepository, KeepsIdleModelsWithoutALimit) {
  Shelf shelf;
  shelf.put("m", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  EXPECT_FALSE(repository.unloads_idle_models());
  repository.set_idle_limit("m", "", std::chrono::milliseconds(0));
  EXPECT_FALSE(repository.idle_time_left("m", "1"));
}

TEST(ModelRepository, EvictsWhatWasUsedLeastLately) {
  Shelf shelf;
  for (const char* name : {"a", "b", "c"}) shelf.put(name, "1");
  shelf.sources.front().pinned = true;
  ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  // The pinned one and the last stay, whatever the budget.
  EXPECT_EQ(repository.models().size(), 2U);
  EXPECT_THROW((void)repository.find("b", ""), Error);
  EXPECT_THAT(repository.names(), ElementsAre("a", "b", "c"));
  std::promise<std::string> loaded;
  repository.use(
      "b", "", [&](const std::shared_ptr<ServedModel>& model) { loaded.set_value(model->name()); },
      [&](const Error& error) { loaded.set_value(error.message()); });
  EXPECT_EQ(loaded.get_future().get(), "b");
  EXPECT_THROW((void)repository.find("c", ""), Error);
  EXPECT_NO_THROW((void)repository.find("a", ""));
}

// A device that hangs while a model is loaded for it: nothing can end that load.
class HangingLoad : public testing::Test {
 protected:
  HangingLoad() {
    shelf_.put("m", "1");
    shelf_.put("n", "1");
    ModelSource& source = shelf_.sources.front();
    source.load = [this] {
      if (++loads_ == 2) hang_.get_future().wait();
      ServingOptions serving;
      serving.timeout = std::chrono::milliseconds(100);
      return load("m", "1", serving);
    };
  }

  Shelf shelf_;
  std::atomic<int> loads_ = 0;
  std::promise<void> hang_;
};

TEST_F(HangingLoad, KeepsNobodyLongerThanARequestMayTake) {
  ModelRepository repository(shelf_.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  ASSERT_EQ(repository.index().front().state, ModelState::evicted);
  const auto ask = [&] {
    auto answer = std::make_shared<std::promise<std::string>>();
    std::future<std::string> answered = answer->get_future();
    repository.use(
        "m", "", [answer](const std::shared_ptr<ServedModel>& model) { answer->set_value(model->name()); },
        [answer](const Error& error) { answer->set_value(error.message()); });
    return answered;
  };
  std::future<std::string> first = ask(), second = ask();
  EXPECT_EQ(first.get(), "model 'm' is still being loaded");
  EXPECT_EQ(second.get(), "model 'm' is still being loaded");
  EXPECT_THROW((void)ask(), Error) << "it is known to be loading";
  EXPECT_EQ(repository.find("n", "")->name(), "n");
  hang_.set_value();
  while (repository.index().front().state != ModelState::ready) std::this_thread::yield();
  EXPECT_EQ(ask().get(), "m");
  EXPECT_EQ(loads_, 2);
}

// The loader hangs on another model, and who waited for this one first has been answered already.
TEST_F(HangingLoad, KeepsNobodyWhoComesLater) {
  shelf_.put("o", "1");
  shelf_.sources[1].load = [] {
    ServingOptions serving;
    serving.timeout = std::chrono::milliseconds(100);
    return load("n", "1", serving);
  };
  ModelRepository repository(shelf_.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  repository.use(
      "m", "", [](const auto&) {}, [](const Error&) {});
  while (loads_ < 2) std::this_thread::yield();
  for (int turn = 0; turn < 2; ++turn) {
    auto answer = std::make_shared<std::promise<std::string>>();
    std::future<std::string> answered = answer->get_future();
    repository.use(
        "n", "", [answer](const std::shared_ptr<ServedModel>& model) { answer->set_value(model->name()); },
        [answer](const Error& error) { answer->set_value(error.message()); });
    const bool is_there = answered.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    EXPECT_TRUE(is_there) << turn;
    if (!is_there) break;
    EXPECT_EQ(answered.get(), "model 'n' is still being loaded");
  }
  hang_.set_value();
}

TEST_F(HangingLoad, IsAnsweredAtItsDeadlineAndGoesOn) {
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(50); };
  ModelRepository repository(shelf_.look(), {.load_timeout = std::chrono::milliseconds(1500)});
  repository.load_all();
  for (const ModelRepository::Deadline deadline : {ModelRepository::Deadline(soon()), ModelRepository::Deadline()}) {
    const auto late = load_again(repository, "m", deadline);
    ASSERT_TRUE(late);
    EXPECT_EQ(late->code(), ErrorCode::deadline_exceeded);
    EXPECT_EQ(late->message(), "model 'm' is not loaded yet: its load continues");
  }
  // No load is waited for by who takes another model out of service.
  EXPECT_FALSE(unload(repository, "n"));
  EXPECT_THAT(repository.names(), ElementsAre("m"));
  EXPECT_EQ(repository.find("m", "")->name(), "m");
  hang_.set_value();
  EXPECT_FALSE(load_again(repository, "m", std::chrono::steady_clock::now() + std::chrono::seconds(20)));
}

TEST_F(HangingLoad, LeavesTheServerReadyWhereAModelIsLoadedAgain) {
  ModelRepository repository(shelf_.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  ASSERT_EQ(repository.index().front().state, ModelState::evicted);
  EXPECT_TRUE(is_ready(repository, "m"));
  std::future<std::string> answer = ask(repository, "m");
  while (loads_ < 2) std::this_thread::yield();
  EXPECT_EQ(repository.index().front().state, ModelState::restoring);
  EXPECT_TRUE(is_ready(repository, "m"));
  EXPECT_EQ(not_ready(repository), "");
  EXPECT_EQ(repository.description("m", "")->signature.inputs.front().name, "x");
  hang_.set_value();
}

TEST_F(HangingLoad, ServesNothingThatWasUnloadedMeanwhile) {
  ModelRepository repository(shelf_.look());
  repository.load_all();
  std::promise<std::string> running, queued;
  const auto tell = [](std::promise<std::string>& promise) {
    return [&promise](const std::optional<Error>& error) { promise.set_value(error ? error->message() : "loaded"); };
  };
  repository.load("m", std::nullopt, tell(running));
  while (loads_ < 2) std::this_thread::yield();
  repository.load("m", std::nullopt, tell(queued));
  EXPECT_FALSE(unload(repository, "m"));
  EXPECT_EQ(running.get_future().get(), "model 'm' was unloaded before it was loaded");
  EXPECT_EQ(queued.get_future().get(), "model 'm' was unloaded before it was loaded");
  EXPECT_THROW((void)repository.find("m", ""), Error);
  EXPECT_EQ(repository.index().front().state, ModelState::unloading);
  hang_.set_value();
  // The loader is past them when it has answered another request.
  EXPECT_FALSE(load_again(repository, "n"));
  EXPECT_EQ(repository.index().front().state, ModelState::unloaded);
  EXPECT_EQ(loads_, 2);
  // A request for it brings it back.
  EXPECT_FALSE(load_again(repository, "m"));
  EXPECT_EQ(repository.find("m", "")->name(), "m");
}

TEST_F(HangingLoad, IsFollowedByNoOtherVersionOfWhatWasUnloadedMeanwhile) {
  shelf_.put("m", "2");
  ModelRepository repository(shelf_.look());
  repository.load_all();
  repository.load("m", std::nullopt, [](const auto&) {});
  while (loads_ < 2) std::this_thread::yield();
  EXPECT_FALSE(wait_for([&](const ModelRepository::Done& done) { repository.unload("m", done); }));
  hang_.set_value();
  // The loader is past it when it has answered another request.
  EXPECT_FALSE(wait_for([&](const ModelRepository::Done& done) { repository.load("n", std::nullopt, done); }));
  EXPECT_THAT(repository.versions("m"), ElementsAre());
  EXPECT_THROW((void)repository.find("m", ""), Error);
}

TEST_F(HangingLoad, DoesNotDelayShutdown) {
  ModelRepository repository(shelf_.look());
  repository.load_all();
  std::string told;
  repository.load("m", std::nullopt,
                  [&](const std::optional<Error>& error) { told = error ? error->message() : "done"; });
  while (loads_ < 2) std::this_thread::yield();
  // The load never ends by itself.
  EXPECT_FALSE(repository.close(std::chrono::steady_clock::now() + std::chrono::milliseconds(100)));
  EXPECT_EQ(told, "the server is going down");
  hang_.set_value();  // or the end of this test would wait for it
}

// A reload that fails is repeated by a later request, and by no request before its delay has passed.
TEST(ModelRepository, TriesAFailedReloadAgain) {
  for (const bool at_once : {true, false}) {
    Shelf shelf;
    shelf.put("m", "1");
    shelf.put("n", "1");
    std::atomic<int> loads = 0;
    shelf.sources.front().load = [&] {
      if (++loads == 2) throw Error(ErrorCode::resource_exhausted, "no memory on the device");
      return load("m", "1");
    };
    ModelRepository repository(
        shelf.look(),
        {.budget = {.memory_bytes = 1}, .first_retry_delay = at_once ? std::chrono::hours(0) : std::chrono::hours(1)});
    repository.load_all();
    EXPECT_EQ(ask(repository, "m").get(), "model 'm' could not be loaded again: no memory on the device");
    EXPECT_EQ(not_ready(repository), "") << "one model's reload is not the server's failure";
    EXPECT_EQ(repository.index().front().state, ModelState::evicted);
    EXPECT_EQ(repository.index().front().reason, "no memory on the device");
    EXPECT_EQ(repository.description("m", "")->name, "m");
    if (at_once) {
      EXPECT_TRUE(is_ready(repository, "m"));
      EXPECT_EQ(ask(repository, "m").get(), "m");
      EXPECT_EQ(loads, 3);
    } else {
      EXPECT_THROW((void)is_ready(repository, "m"), Error);
      EXPECT_EQ(ask(repository, "m").get(), "model 'm' could not be loaded again: no memory on the device");
      EXPECT_EQ(loads, 2);
    }
  }
}

// What its requests still do is counted until they end.
TEST(ModelRepository, AModelIsInUseUntilItsLastRequestEnds) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  std::shared_ptr<ServedModel> held = repository.find("m", "");
  EXPECT_EQ(repository.models_in_use().size(), 2U);
  EXPECT_FALSE(unload(repository, "m"));
  EXPECT_EQ(repository.models().size(), 1U);
  ASSERT_EQ(repository.models_in_use().size(), 2U);
  EXPECT_EQ(repository.models_in_use().back(), held);
  // Its successor continues its counters.
  EXPECT_FALSE(load_again(repository, "m"));
  EXPECT_EQ(repository.models_in_use().size(), 2U);
  EXPECT_FALSE(unload(repository, "m"));
  held.reset();
  while (repository.models_in_use().size() != 1) std::this_thread::yield();
}

// The request is not at fault, whatever the load met.
TEST(ModelRepository, AFailedReloadIsAModelThatIsNotAvailable) {
  for (const ErrorCode code : {ErrorCode::not_found, ErrorCode::internal, ErrorCode::invalid_model,
                               ErrorCode::permission, ErrorCode::resource_exhausted}) {
    Shelf shelf;
    shelf.put("m", "1");
    shelf.put("n", "1");
    std::atomic<int> loads = 0;
    shelf.sources.front().load = [&] {
      if (++loads == 2) throw Error(code, "as it is");
      return load("m", "1");
    };
    ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = 1}});
    repository.load_all();
    std::promise<ErrorCode> answered;
    repository.use(
        "m", "", [&](const std::shared_ptr<ServedModel>&) { answered.set_value(ErrorCode::usage); },
        [&](const Error& error) { answered.set_value(error.code()); });
    EXPECT_EQ(answered.get_future().get(), ErrorCode::provider_unavailable);
  }
}

TEST(ModelRepository, WaitsLongerAfterEachFailure) {
  using std::chrono::milliseconds;
  const std::pair<unsigned, milliseconds> rows[] = {{1, milliseconds(1000)},  {2, milliseconds(2000)},
                                                    {3, milliseconds(4000)},  {6, milliseconds(32000)},
                                                    {7, milliseconds(60000)}, {4'000'000'000U, milliseconds(60000)}};
  for (const auto& [failures, delay] : rows) EXPECT_EQ(retry_delay(milliseconds(1000), failures), delay) << failures;
  EXPECT_EQ(retry_delay(milliseconds(0), 100), milliseconds(0));
  EXPECT_EQ(retry_delay(std::chrono::hours(1), 9), std::chrono::hours(1));
}

// Only requests for inference count: who polls readiness or metadata must not keep a model in memory.
TEST(ModelRepository, EvictsByInferenceAlone) {
  if (test::has_thread_sanitizer) {
    GTEST_SKIP() << "ThreadSanitizer keeps several bytes for each of the process: it grows by more than the models";
  }
  // Two of these fit, a third one does not: the size of a model is that of its file, or what the process grew by.
  static constexpr std::size_t growth = std::size_t{64} << 20;
  std::vector<std::vector<char>> grown;
  Shelf shelf;
  for (const char* name : {"a", "b", "c"}) {
    shelf.put(name, "1");
    shelf.sources.back().load = [&grown, name = std::string(name)] {
      auto model = load(name, "1");
      grown.emplace_back(growth, 'x');
      return model;
    };
  }
  ModelSource third = shelf.sources.back();
  shelf.take("c", "1");
  ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = growth * 5 / 2}});
  repository.load_all();
  ASSERT_EQ(repository.models().size(), 2U);
  // "a" was loaded first and is used last; "b" is only asked about afterwards.
  EXPECT_EQ(ask(repository, "b").get(), "b");
  EXPECT_EQ(ask(repository, "a").get(), "a");
  EXPECT_TRUE(is_ready(repository, "b"));
  EXPECT_EQ(repository.find("b", "")->name(), "b");
  EXPECT_EQ(repository.find_available("b", "")->name(), "b");
  EXPECT_EQ(repository.description("b", "")->name, "b");
  {
    const std::lock_guard lock(shelf.mutex);
    shelf.sources.push_back(third);
  }
  EXPECT_FALSE(refresh(repository));
  EXPECT_EQ(repository.index().at(0).state, ModelState::ready);
  EXPECT_EQ(repository.index().at(1).state, ModelState::evicted);
}

// Metadata of a model that is not in memory.
TEST(ModelRepository, DescribesAnEvictedModel) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  EXPECT_THROW((void)repository.find("m", ""), Error);
  EXPECT_EQ(repository.find_available("m", ""), nullptr);
  EXPECT_EQ(repository.description("m", "")->version, "1");
  EXPECT_EQ(repository.descriptions().size(), 2U);
  EXPECT_EQ(repository.index().front().state, ModelState::evicted);
}

// A list that cannot be read keeps nobody from being served, loaded or watched.
TEST(ModelRepository, KeepsServingWhereItsListCannotBeRead) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  std::atomic<bool> is_broken = false;
  ModelRepository repository([&, look = shelf.look()] {
    if (is_broken) throw Error(ErrorCode::invalid_config, "/home/me/models.yml:3:1: a tab");
    return look();
  });
  repository.load_all();
  const auto before = repository.find("m", "");
  is_broken = true;
  const auto problem = refresh(repository);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->message(), "models.yml:3:1: a tab");
  EXPECT_EQ(repository.find("m", ""), before);
  EXPECT_EQ(repository.index().at(0).reason, "");
  EXPECT_FALSE(load_again(repository, "m")) << "it is known where it comes from";
  EXPECT_NE(repository.find("m", ""), before);
  EXPECT_TRUE(load_again(repository, "unknown"));
  is_broken = false;
  shelf.put("o", "1");
  EXPECT_FALSE(refresh(repository));
  EXPECT_THAT(repository.names(), ElementsAre("m", "n", "o"));
}

// What one model throws, be it no Error and no exception of the standard library, is that model's failure.
TEST(ModelRepository, SurvivesWhateverALoadThrows) {
  const std::vector<std::pair<std::function<void()>, std::string>> rows = {
      {[] { throw std::runtime_error("a library's own"); }, "a library's own"},
      {[] { throw std::bad_alloc(); }, "out of memory"},
      {[] { throw 42; }, "an exception of an unknown type was thrown"},
      {[] { throw std::runtime_error("cannot read '/srv/models/m/model.onnx'"); }, "cannot read 'model.onnx'"},
  };
  for (const auto& [fail, message] : rows) {
    for (const bool in_fingerprint : {false, true}) {
      Shelf shelf;
      shelf.put("m", "1");
      shelf.put("n", "1");
      std::atomic<bool> is_broken = false;
      ModelSource& source = shelf.sources.front();
      source.load = [&, whole = source.load] {
        if (is_broken && !in_fingerprint) fail();
        return whole();
      };
      source.fingerprint = [&] {
        if (is_broken && in_fingerprint) fail();
        return std::string(is_broken ? "changed" : "good");
      };
      ModelRepository repository(shelf.look());
      repository.load_all();
      is_broken = true;
      shelf.put("o", "1");
      const auto watched = refresh(repository);
      ASSERT_TRUE(watched);
      EXPECT_EQ(watched->message(), message);
      const auto loaded = load_again(repository, "m");
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->message(), message);
      EXPECT_EQ(repository.find("m", "")->name(), "m") << "the one before serves";
      EXPECT_EQ(repository.find("o", "")->name(), "o") << "and the others are watched";
    }
  }
}

TEST(ModelRepository, SurvivesWhateverARequestThrows) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look(), {.budget = {.memory_bytes = 1}});
  repository.load_all();
  std::promise<std::string> told;
  repository.use(
      "m", "", [](const auto&) { throw std::runtime_error("no answer"); },
      [&](const Error& error) { told.set_value(error.message()); });
  EXPECT_EQ(told.get_future().get(), "no answer");
  std::promise<void> asked;
  repository.load("m", std::nullopt, [&](const std::optional<Error>&) {
    asked.set_value();
    throw std::runtime_error("no answer");
  });
  asked.get_future().get();
  EXPECT_FALSE(load_again(repository, "m"));
}

// A failure that has nothing to do with the files is tried again although they have not changed.
TEST(ModelRepository, RetriesFailedLoadsOfUnchangedFiles) {
  for (const ErrorCode code : {ErrorCode::provider_unavailable, ErrorCode::invalid_model}) {
    Shelf shelf;
    shelf.put("m", "1");
    std::atomic<int> loads = 0;
    shelf.sources.front().required = false;
    shelf.sources.front().load = [&] {
      if (++loads == 1) throw Error(code, "not now");
      return load("m", "1");
    };
    ModelRepository repository(shelf.look(), {.first_retry_delay = std::chrono::milliseconds(0)});
    repository.load_all();
    EXPECT_EQ(repository.index().front().state, ModelState::failed);
    EXPECT_FALSE(refresh(repository));
    EXPECT_EQ(loads, code == ErrorCode::invalid_model ? 1 : 2);
  }
}

// Health checks are no inferences, and are in no count.
TEST(ModelRepository, CountsNoProbes) {
  Shelf shelf;
  shelf.put("m", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  EXPECT_TRUE(is_ready(repository, "m"));
  const ModelStatistics& counts = repository.find("m", "")->statistics();
  EXPECT_NE(counts.last_answer, 0) << "the device was asked";
  EXPECT_EQ(counts.runs, 0U);
  EXPECT_TRUE(counts.batches().empty());
  EXPECT_EQ(counts.last_success, 0);
}

// The last to let go of a model is a thread of its own scheduler.
TEST(ModelRepository, EndsAModelWithItsLastRequest) {
  Shelf shelf;
  shelf.put("m", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  std::promise<void> answered;
  {
    auto model = repository.find("m", "");
    runtime::InferRequest request;
    request.inputs = synthetic_inputs(model->signature());
    request.arrived = std::chrono::steady_clock::now();
    ServedModel& served = *model;
    EXPECT_FALSE(unload(repository, "m"));
    (void)served.session().submit(std::move(request), [&answered, model](runtime::InferAnswer&& answer) mutable {
      EXPECT_FALSE(answer.error);
      model.reset();
      answered.set_value();
    });
  }
  answered.get_future().get();
  EXPECT_TRUE(repository.close(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
}

}  // namespace
}  // namespace gpux::server
