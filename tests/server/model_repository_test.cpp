#include "server/model_repository.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<ServedModel> load(const std::string& name, const std::string& version,
                                  const ServingOptions& serving = {}) {
  LoadOptions options;
  options.provider = "cpu";
  Workers workers = load_workers({}, options, false, [](const LoadOptions& with) {
    return Runtime(std::string(GPUX_SOURCE_DIR) + "/tests/models/add.onnx", with);
  });
  return std::make_unique<ServedModel>(name, version, std::move(workers), std::nullopt, serving);
}

// What there is to load, which a test may change while the repository lives.
struct Shelf {
  std::vector<ModelSource> sources;
  std::mutex mutex;

  void put(const std::string& name, const std::string& version, bool broken = false) {
    const std::lock_guard lock(mutex);
    ModelSource source;
    source.name = name;
    source.version = version;
    source.load = [name, version, broken]() -> std::unique_ptr<ServedModel> {
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

TEST(Versions, AreOrderedByTheirNumbers) {
  std::vector<std::string> versions{"1.10", "10", "2", "1.9", "latest", "1.9-rc2", "01", "1", "1.9-rc10"};
  std::sort(versions.begin(), versions.end(), version_less);
  EXPECT_THAT(versions, ElementsAre("01", "1", "1.9", "1.9-rc2", "1.9-rc10", "1.10", "2", "10", "latest"));
  EXPECT_FALSE(version_less("1", "1"));
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
  const auto error = wait_for([&](const ModelRepository::Done& done) { repository.load("m", std::nullopt, done); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_model);
  EXPECT_EQ(error->message(), "'model.onnx' cannot be used");
  EXPECT_EQ(repository.find("m", ""), before);
  EXPECT_EQ(repository.index().front().state, ModelState::ready);
  EXPECT_EQ(repository.index().front().reason, "'model.onnx' cannot be used");

  shelf.put("m", "1");
  EXPECT_FALSE(wait_for([&](const ModelRepository::Done& done) { repository.load("m", std::nullopt, done); }));
  EXPECT_NE(repository.find("m", ""), before);
  EXPECT_EQ(repository.find("m", "")->shared_statistics(), before->shared_statistics());
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
  const auto refresh = [&] { return wait_for([&](const ModelRepository::Done& done) { repository.refresh(done); }); };
  const auto load = [&] {
    return wait_for([&](const ModelRepository::Done& done) { repository.load("m", std::nullopt, done); });
  };
  for (const auto& look : std::vector<std::function<std::optional<Error>()>>{refresh, load}) {
    EXPECT_TRUE(look());
    EXPECT_EQ(repository.find("m", ""), before);
    EXPECT_THAT(repository.versions("m"), ElementsAre("1"));
    EXPECT_EQ(repository.index().size(), 3U);
  }
  shelf.put("m", "2");
  EXPECT_FALSE(refresh());
  EXPECT_EQ(repository.find("m", "")->version(), "2");
  EXPECT_EQ(repository.index().size(), 2U);

  // With all its versions a model is gone.
  shelf.take("m", "2");
  EXPECT_FALSE(refresh());
  EXPECT_THROW((void)repository.find("m", ""), Error);
  EXPECT_THAT(repository.names(), ElementsAre("n"));
}

// An evicted version is served as soon as it is asked for.
TEST(ModelRepository, KeepsAnEvictedVersionUntilItsSuccessorServes) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look(), {.memory_budget_bytes = 1});
  repository.load_all();
  ASSERT_EQ(repository.index().front().state, ModelState::evicted);
  shelf.put("m", "2", true);
  shelf.take("m", "1");
  EXPECT_TRUE(wait_for([&](const ModelRepository::Done& done) { repository.refresh(done); }));
  std::promise<std::string> served;
  repository.use(
      "m", "", [&](const std::shared_ptr<ServedModel>& model) { served.set_value(model->version()); },
      [&](const Error& error) { served.set_value(error.message()); });
  EXPECT_EQ(served.get_future().get(), "1");
}

TEST(ModelRepository, FollowsWhatIsThere) {
  Shelf shelf;
  shelf.put("m", "1");
  shelf.put("n", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  EXPECT_FALSE(wait_for([&](const ModelRepository::Done& done) { repository.unload("n", std::nullopt, done); }));
  const auto before = repository.find("m", "");
  shelf.put("m", "2");
  const auto refresh = [&] { return wait_for([&](const ModelRepository::Done& done) { repository.refresh(done); }); };
  EXPECT_FALSE(refresh());
  EXPECT_EQ(repository.find("m", "")->version(), "2");
  EXPECT_EQ(repository.find("m", "1"), before);  // unchanged, so not loaded again
  // What was unloaded on request stays so.
  EXPECT_THROW((void)repository.find("n", ""), Error);
  shelf.take("m", "1");
  shelf.take("n", "1");
  EXPECT_FALSE(refresh());
  EXPECT_THAT(repository.versions("m"), ElementsAre("2"));
  EXPECT_EQ(repository.index().size(), 1U);
  EXPECT_TRUE(wait_for([&](const ModelRepository::Done& done) { repository.unload("n", std::nullopt, done); }));
}

TEST(ModelRepository, EvictsWhatWasUsedLeastLately) {
  Shelf shelf;
  for (const char* name : {"a", "b", "c"}) shelf.put(name, "1");
  shelf.sources.front().pinned = true;
  ModelRepository repository(shelf.look(), {.memory_budget_bytes = 1});
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
  ModelRepository repository(shelf_.look(), {.memory_budget_bytes = 1});
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
  ModelRepository repository(shelf_.look(), {.memory_budget_bytes = 1});
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
  ModelRepository repository(shelf_.look(), {.load_timeout = std::chrono::milliseconds(150)});
  repository.load_all();
  const auto load = [&](const std::string& name, ModelRepository::Deadline deadline) {
    return wait_for([&](const ModelRepository::Done& done) { repository.load(name, deadline, done); });
  };
  for (const ModelRepository::Deadline deadline : {ModelRepository::Deadline(soon()), ModelRepository::Deadline()}) {
    const auto late = load("m", deadline);
    ASSERT_TRUE(late);
    EXPECT_EQ(late->code(), ErrorCode::deadline_exceeded);
    EXPECT_EQ(late->message(), "model 'm' is not loaded yet: its load goes on");
  }
  const auto unloaded =
      wait_for([&](const ModelRepository::Done& done) { repository.unload("n", std::nullopt, done); });
  ASSERT_TRUE(unloaded);
  EXPECT_EQ(unloaded->message(), "model 'n' is not unloaded yet: it will be when a load has ended");
  EXPECT_EQ(repository.find("m", "")->name(), "m");
  hang_.set_value();
  while (repository.names().size() > 1) std::this_thread::yield();
  EXPECT_THAT(repository.names(), ElementsAre("m"));
  EXPECT_FALSE(load("m", std::chrono::steady_clock::now() + std::chrono::seconds(20)));
}

TEST_F(HangingLoad, HoldsNoEndBack) {
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

// The last to let go of a model is a thread of its own scheduler.
TEST(ModelRepository, EndsAModelWithItsLastRequest) {
  Shelf shelf;
  shelf.put("m", "1");
  ModelRepository repository(shelf.look());
  repository.load_all();
  std::promise<void> answered;
  {
    auto model = repository.find("m", "");
    ServedModel::Call call;
    call.inputs = synthetic_inputs(model->signature());
    call.arrived = std::chrono::steady_clock::now();
    ServedModel& served = *model;
    EXPECT_FALSE(wait_for([&](const ModelRepository::Done& done) { repository.unload("m", std::nullopt, done); }));
    (void)served.submit(std::move(call), [&answered, model](runtime::InferAnswer&& answer) mutable {
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
