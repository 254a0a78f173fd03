#include "server/requests/shared_regions.h"

#include <array>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/refusal.h"
#include "gpux/error.h"
#include "server/http/message.h"
#include "server/protocols/open_inference/messages.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Shared memory of a client, by a name of its own.
class SharedObject {
 public:
  explicit SharedObject(std::size_t bytes, const std::string& prefix = "/gpux-test-")
      : name_(prefix + std::to_string(::getpid()) + "-" + std::to_string(++made)),
        object_(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
    resize(bytes);
  }

  ~SharedObject() { ::shm_unlink(name_.c_str()); }

  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  void resize(std::size_t bytes) const { ASSERT_EQ(::ftruncate(object_.get(), static_cast<off_t>(bytes)), 0); }

  template <typename T>
  void put(std::size_t offset, const std::vector<T>& values) const {
    const auto bytes = static_cast<ssize_t>(values.size() * sizeof(T));
    ASSERT_EQ(::pwrite(object_.get(), values.data(), values.size() * sizeof(T), static_cast<off_t>(offset)), bytes);
  }

  template <typename T>
  [[nodiscard]] std::vector<T> get(std::size_t offset, std::size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(::pread(object_.get(), values.data(), count * sizeof(T), static_cast<off_t>(offset)),
              static_cast<ssize_t>(count * sizeof(T)));
    return values;
  }

 private:
  static inline int made = 0;
  std::string name_;
  UniqueFd object_;
};

TEST(ObjectName, IsOneOfThePrefixWithoutASecondSlash) {
  for (const char* name : {"/a", "/infer-1", "/..a"}) EXPECT_EQ(object_name_problem(name, "/"), "") << name;
  EXPECT_EQ(object_name_problem("/infer-1", "/infer-"), "");
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("a"), std::string("/a/b"), std::string("/../etc/passwd"),
        std::string("/.."), std::string("/."), std::string("/a\0b", 4), "/" + std::string(255, 'a')}) {
    EXPECT_NE(object_name_problem(name, "/"), "") << name;
  }
  EXPECT_THAT(object_name_problem("/other", "/infer-"), HasSubstr("does not begin with '/infer-'"));
}

TEST(SharedRegions, AreRegisteredOnceAndListedByName) {
  const SharedObject object(64);
  SharedRegions regions("/gpux-test-");
  const SharedRegionPlace b{"b", object.name(), 0, 64}, a{"a", object.name(), 32, 32};
  regions.add(b);
  regions.add(a);
  EXPECT_THAT(regions.all(), ElementsAre(a, b));
  EXPECT_THAT(test::refusal([&] { regions.add(a); }), HasSubstr("'a' already"));
  regions.remove("a");
  regions.remove("a");
  EXPECT_THAT(regions.all(), ElementsAre(b));
  EXPECT_THAT(test::refusal([&] { (void)regions.find("a"); }), HasSubstr("no shared memory region 'a'"));
  regions.remove_all();
  EXPECT_TRUE(regions.all().empty());
}

TEST(SharedRegions, RefuseWhatIsNotThere) {
  const SharedObject object(64);
  SharedRegions regions("/gpux-test-");
  const auto refusal = [&](SharedRegionPlace place) { return test::refusal([&] { regions.add(std::move(place)); }); };
  EXPECT_THAT(refusal({"r", object.name(), 0, 65}), HasSubstr("has 64 bytes, and 65 from byte 0"));
  EXPECT_THAT(refusal({"r", object.name(), 60, 5}), HasSubstr("5 from byte 60"));
  EXPECT_THAT(refusal({"r", object.name(), 0, 0}), HasSubstr("0 from byte 0"));
  EXPECT_THAT(refusal({"r", object.name(), UINT64_MAX, UINT64_MAX}), HasSubstr("asked for"));
  EXPECT_THAT(refusal({"r", "/gpux-test-none", 0, 1}), HasSubstr("cannot be opened"));
  EXPECT_THAT(refusal({"r", "/other", 0, 1}), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal({"", object.name(), 0, 1}), HasSubstr("a region's name"));
  EXPECT_THAT(refusal({std::string(257, 'r'), object.name(), 0, 1}), HasSubstr("a region's name"));
  EXPECT_TRUE(regions.all().empty());
}

TEST(SharedRegions, AreBoundedInNumber) {
  const SharedObject object(1);
  SharedRegions regions("/");
  for (std::size_t i = 0; i < SharedRegions::max_regions; ++i) regions.add({std::to_string(i), object.name(), 0, 1});
  EXPECT_THROW(regions.add({"more", object.name(), 0, 1}), Error);
}

Signature pairs() {
  SignatureEntry x;
  x.name = "x";
  x.type.kind = ValueKind::tensor;
  x.type.element = ElementType::float32;
  x.type.dimensions = std::vector<Dimension>{{.size = std::nullopt, .name = {}}, {.size = 2, .name = {}}};
  SignatureEntry y = x, t = x;
  y.name = "y";
  t.name = "t";
  t.type.element = ElementType::string;
  return {.inputs = {x, t}, .outputs = {y, t}};
}

TEST(SharedMemory, HoldsInputsAndOutputs) {
  const SharedObject object(256);
  object.put<float>(16, {1, 2, 3, 4});
  object.put<char>(64, {2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0});
  SharedRegions regions("/");
  regions.add({"in", object.name(), 8, 200});
  std::uint64_t held = 0;
  const InferReading reading{.regions = &regions, .hold = [&](std::uint64_t bytes) { held += bytes; }};
  const std::string json = R"({"inputs": [
    {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters":
      {"shared_memory_region": "in", "shared_memory_byte_size": 16, "shared_memory_offset": 8}},
    {"name": "t", "datatype": "BYTES", "shape": [1, 2], "parameters":
      {"shared_memory_region": "in", "shared_memory_byte_size": 10, "shared_memory_offset": 56}}],
    "outputs": [{"name": "y", "parameters":
      {"shared_memory_region": "in", "shared_memory_byte_size": 64, "shared_memory_offset": 100}}, {"name": "t"}]})";
  const InferCall call = read_infer_call(http::make_body(json), std::nullopt, pairs(), reading);
  EXPECT_GE(held, 26U);
  EXPECT_THAT(find(call.run.inputs, "x")->tensor()->as<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(find(call.run.inputs, "t")->tensor()->strings(), ElementsAre("ab", ""));
  // What the client changes now is for the next request.
  object.put<float>(16, {9, 9, 9, 9});
  EXPECT_THAT(find(call.run.inputs, "x")->tensor()->as<float>(), ElementsAre(1, 2, 3, 4));

  const NamedValues outputs{{"y", Tensor::of<float>({1, 2}, std::vector<float>{7, 8})},
                            {"t", Tensor::of_strings({1, 2}, {"c", "d"})}};
  const http::Response response =
      write_infer_response({.model_name = "m", .model_version = "1", .call = call, .outputs = outputs});
  EXPECT_THAT(response.text, HasSubstr(R"({"name":"y","datatype":"FP32","shape":[1,2],"parameters":{)"
                                       R"("shared_memory_region":"in","shared_memory_byte_size":8,)"
                                       R"("shared_memory_offset":100}})"));
  EXPECT_THAT(response.text, HasSubstr(R"("data":["c","d"])"));
  EXPECT_THAT(object.get<float>(108, 2), ElementsAre(7, 8));
}

TEST(SharedMemory, RefusesWhatIsNotInTheRegion) {
  const SharedObject object(64);
  SharedRegions regions("/");
  regions.add({"r", object.name(), 0, 64});
  const InferReading reading{.regions = &regions, .hold = {}};
  const auto refusal = [&](const std::string& parameters, const InferReading& with, const std::string& more = "") {
    const std::string json = R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {)" +
                             parameters + "}" + more + "}]}";
    return test::refusal([&] { (void)read_infer_call(http::make_body(json), std::nullopt, pairs(), with); });
  };
  const std::string region = R"("shared_memory_region": "r")", size = R"(, "shared_memory_byte_size": )";
  EXPECT_THAT(refusal(region + size + "16", {}), HasSubstr("shared memory is not served"));
  EXPECT_THAT(refusal(region, reading), HasSubstr("without shared_memory_byte_size"));
  EXPECT_THAT(refusal(R"("shared_memory_region": 3)" + size + "16", reading), HasSubstr("not a text"));
  EXPECT_THAT(refusal(R"("shared_memory_region": "s")" + size + "16", reading),
              HasSubstr("no shared memory region 's'"));
  EXPECT_THAT(refusal(region + size + "65", reading), HasSubstr("input 'x': shared memory region 'r' has 64 bytes"));
  EXPECT_THAT(refusal(region + size + R"(16, "shared_memory_offset": 18446744073709551615)", reading),
              HasSubstr("from byte 18446744073709551615 on"));
  EXPECT_THAT(refusal(region + size + "12", reading), HasSubstr("12 bytes for FP32"));
  EXPECT_THAT(refusal(region + size + "16", reading, R"(, "data": [1, 2, 3, 4])"), HasSubstr("both data and"));
  // Another process may shorten it at any time: no signal ends this one.
  object.resize(8);
  EXPECT_THAT(refusal(region + size + "16", reading), HasSubstr("has become shorter"));
}

TEST(SharedMemory, TakesNoOutputThatIsLongerThanItsPlace) {
  const SharedObject object(64);
  SharedRegions regions("/");
  regions.add({"r", object.name(), 0, 64});
  const auto write = [&](std::uint64_t byte_size) {
    InferCall call;
    RequestedOutput output;
    output.name = "y";
    output.shared = SharedRange{regions.find("r"), 0, byte_size};
    call.outputs.push_back(output);
    const NamedValues outputs{{"y", Tensor::of<float>({1, 2}, std::vector<float>{7, 8})}};
    return test::refusal([&] {
      (void)write_infer_response({.model_name = "m", .model_version = "1", .call = call, .outputs = outputs});
    });
  };
  EXPECT_EQ(write(8), "nothing was refused");
  EXPECT_THAT(write(7), HasSubstr("output 'y' has 8 bytes, and shared_memory_byte_size is 7"));
  object.resize(4);
  EXPECT_THAT(write(8), HasSubstr("has become shorter"));
  EXPECT_EQ(object.get<char>(0, 4).size(), 4U);
}

}  // namespace
}  // namespace gpux::server
