#include "gpux/device_tensor.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "gpux/error.h"
#include "ort/value_place.h"
#include "runtime/example_device.h"

namespace gpux {
namespace {

using DeviceTensors = test::ExampleDevice;
using test::all_provider_counts;

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PlaceOf, TellsWhoseMemoryItIs) {
  using ort::MemoryFacts;
  using ort::Place;
  const MemoryFacts host{}, gpu{.is_host = false, .device_type = 1, .vendor = 7, .device = 0};
  MemoryFacts second = gpu, other_vendor = gpu, pinned = gpu;
  second.device = 1;
  other_vendor.vendor = 8;
  pinned.is_host = true;
  const std::array<MemoryFacts, 1> one{gpu};

  struct Case {
    MemoryFacts memory;
    std::span<const MemoryFacts> plugins;
    Place place;
  };

  for (const Case& row : {Case{host, {}, Place::host}, Case{host, one, Place::host}, Case{pinned, one, Place::host},
                          Case{gpu, one, Place::device}, Case{gpu, {}, Place::other_device},
                          Case{second, one, Place::other_device}, Case{other_vendor, one, Place::other_device}}) {
    EXPECT_EQ(ort::place_of(row.memory, row.plugins), row.place) << row.memory.vendor << ':' << row.memory.device;
  }
}

TEST(PlaceOf, TellsWhetherOutputsAreWrittenToMemoryThatIsGiven) {
  EXPECT_TRUE(ort::is_written_in_place({}));
  EXPECT_FALSE(ort::is_written_in_place({.is_host = false, .device_type = 1}));
  EXPECT_FALSE(ort::is_written_in_place({.is_host = true, .is_pinned = true, .device_type = 1}));
}

/// Copies to and from the device of it.
std::vector<std::uint64_t> provider_counts() {
  std::vector<std::uint64_t> counts = all_provider_counts();
  counts.resize(4);
  return counts;
}

/// Of these counts, and of blocks of device memory and of pinned memory.
struct RunCounts {
  std::uint64_t pageable_copies, pinned_copies, allocations, pinned_allocations;

  bool operator==(const RunCounts&) const = default;
};

std::ostream& operator<<(std::ostream& stream, const RunCounts& counts) {
  return stream << counts.pageable_copies << " pageable, " << counts.pinned_copies << " pinned, " << counts.allocations
                << " blocks of the device, " << counts.pinned_allocations << " pinned";
}

template <typename Work>
RunCounts counts_during(const Work& work) {
  const std::vector<std::uint64_t> before = all_provider_counts();
  work();
  std::vector<std::uint64_t> counts = all_provider_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= before[i];
  const std::uint64_t pinned = counts[8] + counts[10];
  return {counts[0] + counts[2] - pinned, pinned, counts[6], counts[12]};
}

std::vector<std::uint64_t> counts_of(const Runtime& runtime) {
  const TransferCounts counts = runtime.transfers();
  return {counts.to_device, counts.to_device_bytes, counts.from_device, counts.from_device_bytes};
}

std::vector<std::uint64_t> difference(std::vector<std::uint64_t> after, const std::vector<std::uint64_t>& before) {
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

const Tensor three = floats({3}, {1, 2, 3}), factors = floats({3}, {2, -1, 0.5F});

TEST_F(DeviceTensors, GoFromOneModelToAnotherWithoutTheHost) {
  const Runtime first = product(), second = product();
  ASSERT_TRUE(first.keeps_on_device());
  // By way of the host: two inputs and one output of 12 bytes in each of two runs.
  auto before = provider_counts();
  const NamedValues between = first.infer({{"a", three}, {"b", factors}});
  const NamedValues expected = second.infer({{"a", between.front().second}, {"b", factors}});
  EXPECT_THAT(difference(provider_counts(), before), ElementsAre(4, 48, 2, 24));

  before = provider_counts();
  const auto first_before = counts_of(first), second_before = counts_of(second);
  const DeviceTensor factors_there = second.upload(factors, "b");
  const NamedDeviceTensors kept = first.infer_on_device({{"a", three}}, {{"b", factors_there}});
  ASSERT_TRUE(kept.front().second.is_on_device());
  EXPECT_EQ(kept.front().second.shape(), Shape{3});
  EXPECT_EQ(kept.front().second.byte_size(), 12U);
  const NamedDeviceTensors result = second.infer_on_device({}, {{"a", kept.front().second}, {"b", factors_there}});
  EXPECT_EQ(values_of(result.front().second.read()), values_of(*expected.front().second.tensor()));
  EXPECT_THAT(difference(provider_counts(), before), ElementsAre(2, 24, 1, 12));
  // The runtimes' own counts are those of the provider.
  EXPECT_THAT(difference(counts_of(first), first_before), ElementsAre(1, 12, 0, 0));
  EXPECT_THAT(difference(counts_of(second), second_before), ElementsAre(1, 12, 1, 12));
}

TEST_F(DeviceTensors, CarryAStateFromRunToRun) {
  const Runtime runtime = product();
  const DeviceTensor factor = runtime.upload(factors, "b");
  DeviceTensor state = runtime.upload(three, "a");
  const auto before = provider_counts();
  for (int i = 0; i < 4; ++i) state = runtime.infer_on_device({}, {{"a", state}, {"b", factor}}).front().second;
  EXPECT_THAT(difference(provider_counts(), before), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(values_of(state.read()), ElementsAre(16, 2, 3.0F / 16));
}

TEST_F(DeviceTensors, AreOnTheHostWhereTheModelHasThemThere) {
  const Runtime mixed(test_model("multiply"), on_example());  // its output is made by a Relu on the CPU
  EXPECT_FALSE(mixed.keeps_on_device());
  const NamedDeviceTensors kept = mixed.infer_on_device({{"a", three}, {"b", factors}});
  EXPECT_FALSE(kept.front().second.is_on_device());
  EXPECT_THAT(values_of(kept.front().second.read()), ElementsAre(2, 0, 1.5F));
  // Its inputs are on the device, and copied once for two runs.
  const auto before = provider_counts();
  const DeviceTensor a = mixed.upload(three, "a"), b = mixed.upload(factors, "b");
  EXPECT_TRUE(a.is_on_device());
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(values_of(mixed.infer_on_device({}, {{"a", a}, {"b", b}}).front().second.read()),
                ElementsAre(2, 0, 1.5F));
  }
  const auto counts = difference(provider_counts(), before);
  EXPECT_THAT(std::vector(counts.begin(), counts.begin() + 2), ElementsAre(2, 24));

  LoadOptions on_cpu;
  on_cpu.provider = "cpu";
  const Runtime cpu(product_file(), on_cpu);
  const DeviceTensor same = cpu.upload(three, "a");
  EXPECT_FALSE(same.is_on_device());
  EXPECT_EQ(same.read().bytes().data(), three.bytes().data());
  const NamedDeviceTensors product = cpu.infer_on_device({{"b", factors}}, {{"a", same}});
  EXPECT_THAT(values_of(product.front().second.read()), ElementsAre(2, -2, 1.5F));
  EXPECT_THAT(counts_of(cpu), ElementsAre(0, 0, 0, 0));
}

// Between a device and the CPU's model a value goes by way of the host.
TEST_F(DeviceTensors, AreCopiedForAModelElsewhere) {
  LoadOptions on_cpu;
  on_cpu.provider = "cpu";
  const Runtime there = product(), here(product_file(), on_cpu);
  const NamedDeviceTensors made = there.infer_on_device({{"a", three}, {"b", factors}});
  const NamedDeviceTensors result = here.infer_on_device({{"b", factors}}, {{"a", made.front().second}});
  EXPECT_THAT(values_of(result.front().second.read()), ElementsAre(4, 2, 0.75F));
  const NamedDeviceTensors back = there.infer_on_device({{"b", factors}}, {{"a", result.front().second}});
  EXPECT_THAT(values_of(back.front().second.read()), ElementsAre(8, -2, 0.375F));
}

TEST_F(DeviceTensors, OutliveTheirRuntime) {
  DeviceTensor kept, uploaded;
  {
    const Runtime runtime = product();
    uploaded = runtime.upload(three, "a");
    kept = runtime.infer_on_device({{"b", factors}}, {{"a", uploaded}}).front().second;
  }
  EXPECT_THAT(values_of(kept.read()), ElementsAre(2, -2, 1.5F));
  EXPECT_THAT(values_of(uploaded.read()), ElementsAre(1, 2, 3));
  EXPECT_EQ(DeviceTensor().type(), ElementType::undefined);
  EXPECT_EQ(DeviceTensor().read().byte_size(), 0U);
}

TEST_F(DeviceTensors, MayBeEmpty) {
  const Runtime runtime = product();
  const DeviceTensor nothing = runtime.upload(Tensor::allocate(ElementType::float32, {0}), "a");
  const NamedDeviceTensors kept =
      runtime.infer_on_device({{"b", Tensor::allocate(ElementType::float32, {0})}}, {{"a", nothing}});
  EXPECT_EQ(kept.front().second.read().shape(), Shape{0});
}

TEST_F(DeviceTensors, AreUsedBySeveralThreads) {
  const Runtime runtime = product();
  const DeviceTensor factor = runtime.upload(factors, "b");
  std::vector<std::vector<float>> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < found.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto number = static_cast<float>(i);
        DeviceTensor state = runtime.upload(floats({3}, {number, number, number}), "a");
        for (int run = 0; run < 8; ++run) {
          state = runtime.infer_on_device({}, {{"a", state}, {"b", factor}}).front().second;
        }
        found[i] = values_of(state.read());
      });
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto number = static_cast<float>(i);
    EXPECT_THAT(found[i], ElementsAre(256 * number, number, number / 256));
  }
}

TEST_F(DeviceTensors, AreCheckedAsOtherInputsAre) {
  const Runtime runtime = product();
  const DeviceTensor a = runtime.upload(three, "a");
  const auto said = [&](const NamedValues& inputs, const NamedDeviceTensors& device_inputs) -> std::string {
    try {
      (void)runtime.infer_on_device(inputs, device_inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(said({}, {{"a", a}}), "input 'b' (float32[n]) is missing");
  EXPECT_EQ(said({{"a", three}, {"b", three}}, {{"a", a}}), "input 'a' is given twice");
  EXPECT_EQ(said({{"b", three}}, {{"x", a}}),
            "there is no input 'x', did you mean 'a'?; inputs: a, b; input 'a' (float32[n]) is missing");
  EXPECT_EQ(said({}, {{"a", a}, {"b", DeviceTensor(floats({1, 3}, {1, 2, 3}))}}),
            "input 'b' takes float32[n], got float32[1, 3]");
  EXPECT_EQ(said({}, {{"a", a}, {"b", DeviceTensor()}}), "input 'b' takes float32[n], got undefined[]");
  try {
    (void)runtime.upload(three, "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "there is no input 'x'; inputs: a, b");
  }
}

TEST_F(DeviceTensors, TakeATimeLimit) {
  const Runtime runtime = product();
  const NamedDeviceTensors kept = runtime.infer_on_device({{"a", three}, {"b", factors}}, {},
                                                          {.timeout = std::chrono::seconds(30), .outputs = {"c"}});
  EXPECT_THAT(values_of(kept.front().second.read()), ElementsAre(2, -2, 1.5F));
  EXPECT_THROW((void)runtime.infer_on_device({{"a", three}, {"b", factors}}, {}, {.timeout = {}, .outputs = {"d"}}),
               Error);
}

// --- pinned memory, and memory of outputs before the run ---------------------------------------------------------

Tensor counted(std::int64_t count, float first) {
  Tensor tensor = Tensor::allocate(ElementType::float32, {count});
  for (float& element : tensor.mutable_as<float>()) element = first++;
  return tensor;
}

constexpr std::int64_t many = 100'000;  // floats: more than what is copied without pinned memory

TEST_F(DeviceTensors, AreCopiedByWayOfPinnedMemoryThatIsUsedAgain) {
  const Runtime runtime = product();
  const Tensor a = counted(many, 0), b = counted(many, 7);
  const auto run = [&] {
    const NamedValues results = runtime.infer({{"a", a}, {"b", b}});
    const auto product = results.front().second.tensor()->as<float>();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{99'999}}) {
      EXPECT_EQ(product[i], a.as<float>()[i] * b.as<float>()[i]);
    }
  };
  const TransferCounts before = runtime.transfers();
  const RunCounts first = counts_during(run), second = counts_during(run);
  const TransferCounts after = runtime.transfers();
  EXPECT_EQ(after.to_device - before.to_device, 4U);
  EXPECT_EQ(after.from_device - before.from_device, 2U);
  if (has_pinned_memory()) {
    EXPECT_EQ(first, (RunCounts{0, 3, 3, 2}));  // the product may be in the block of an input
    EXPECT_EQ(second, (RunCounts{0, 3, 0, 0}));
    EXPECT_EQ(after.to_device_pinned - before.to_device_pinned, 4U);
    EXPECT_EQ(after.from_device_pinned - before.from_device_pinned, 2U);
  } else {
    EXPECT_EQ(first, (RunCounts{3, 0, 3, 0}));
    EXPECT_EQ(second, (RunCounts{3, 0, 3, 0}));
    EXPECT_EQ(after.to_device_pinned + after.from_device_pinned, 0U);
  }
}

TEST_F(DeviceTensors, AreNotPinnedWhereTheyAreSmall) {
  const Runtime runtime = product();
  const auto run = [&] { (void)runtime.infer({{"a", three}, {"b", factors}}); };
  run();
  EXPECT_EQ(counts_during(run), (RunCounts{3, 0, has_pinned_memory() ? 0U : 3U, 0}));
}

// Memory that a caller still has is not written by the next run.
TEST_F(DeviceTensors, KeepTheirElementsWhileTheyAreHeld) {
  const Runtime runtime = product();
  const Tensor a = counted(many, 1);
  std::vector<Tensor> held;
  for (const float factor : {1.0F, 2.0F, 3.0F}) {
    Tensor b = Tensor::allocate(ElementType::float32, {many});
    for (float& element : b.mutable_as<float>()) element = factor;
    held.push_back(*runtime.infer({{"a", a}, {"b", b}}).front().second.tensor());
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(held[i].as<float>()[0], static_cast<float>(i + 1));
    EXPECT_EQ(held[i].as<float>()[9], 10 * static_cast<float>(i + 1));
  }
  std::vector<DeviceTensor> on_device;
  for (const float factor : {1.0F, 2.0F}) {
    Tensor b = Tensor::allocate(ElementType::float32, {many});
    for (float& element : b.mutable_as<float>()) element = factor;
    on_device.push_back(runtime.infer_on_device({{"a", a}, {"b", b}}).front().second);
  }
  EXPECT_EQ(on_device[0].read().as<float>()[9], 10);
  EXPECT_EQ(on_device[1].read().as<float>()[9], 20);
}

TEST_F(DeviceTensors, AreMadeInMemoryThatWasReleased) {
  const Runtime runtime = product();
  const DeviceTensor factor = runtime.upload(factors, "b");
  DeviceTensor state = runtime.upload(three, "a");
  const auto run = [&] { state = runtime.infer_on_device({}, {{"a", state}, {"b", factor}}).front().second; };
  run();
  run();
  const RunCounts counts = counts_during([&] {
    run();
    run();
  });
  EXPECT_EQ(counts, (RunCounts{0, 0, has_pinned_memory() ? 0U : 2U, 0}));
  EXPECT_THAT(values_of(state.read()), ElementsAre(16, 2, 3.0F / 16));
}

// What is kept for later runs is not what a run of another size lacks.
TEST_F(DeviceTensors, LeaveTheMemoryOfTheDeviceToTheRun) {
  const std::array<onnx::WrittenSize, 1> sizes{"n"};
  onnx::GraphWriter graph("chain");
  for (const char* name : {"a", "b"}) graph.input(name, ElementType::float32, sizes);
  graph.node("Mul", {"a", "b"}, {}, "between");
  graph.node("Mul", {"between", "b"}, {}, "c");
  graph.output("c", ElementType::float32, sizes);
  graph.write(folder_.path() / "chain.onnx", 17, 8);
  LoadOptions options = on_example();
  options.provider_options.push_back(
      {.provider = "example", .values = {{"fail", "out-of-memory:1000000"}}, .where = {}});
  const Runtime runtime(folder_.path() / "chain.onnx", options);
  const auto run = [&](std::int64_t count) {
    const NamedValues results = runtime.infer({{"a", counted(count, 1)}, {"b", counted(count, 2)}});
    EXPECT_EQ(results.front().second.tensor()->as<float>()[2], 3 * 4 * 4);
  };
  run(55'000);  // 220,000 bytes each, of which three are kept
  run(24'000);  // 96,000: too small for these, and the fourth is the run's own
  run(55'000);
  EXPECT_THROW(run(100'000), Error);
  run(55'000);
}

TEST_F(DeviceTensors, DoNotDependOnTheShapeThatTheModelDeclares) {
  struct Case {
    std::vector<onnx::WrittenSize> input, output;
    Shape given;
  };

  // Too few, too many, as many in another shape, and a name that stands for the size of another axis.
  for (const Case& row :
       {Case{{"n"}, {std::int64_t{2}}, {3}}, Case{{"n"}, {std::int64_t{5}}, {3}},
        Case{{"r", "c"}, {std::int64_t{2}, std::int64_t{3}}, {3, 2}}, Case{{"r", "c"}, {"c", "r"}, {3, 2}}}) {
    const Runtime runtime = declared(row.input, row.output);
    Tensor a = Tensor::allocate(ElementType::float32, row.given), b = Tensor::allocate(ElementType::float32, row.given);
    for (std::size_t i = 0; i < a.as<float>().size(); ++i) {
      a.mutable_as<float>()[i] = static_cast<float>(i);
      b.mutable_as<float>()[i] = 3;
    }
    const auto run = [&] {
      const NamedValues results = runtime.infer({{"a", a}, {"b", b}});
      const Tensor& product = *results.front().second.tensor();
      EXPECT_EQ(product.shape(), row.given);
      for (std::size_t i = 0; i < product.as<float>().size(); ++i) {
        EXPECT_EQ(product.as<float>()[i], 3 * static_cast<float>(i));
      }
    };
    // The first run allocates for the declared shape, too, and ONNX Runtime for the right one; the next only that.
    const bool is_pinned = has_pinned_memory();
    EXPECT_EQ(counts_during(run), (RunCounts{3, 0, is_pinned ? 4U : 3U, 0}));
    EXPECT_EQ(counts_during(run), (RunCounts{3, 0, is_pinned ? 1U : 3U, 0}));
    EXPECT_EQ(runtime.infer_on_device({{"a", a}, {"b", b}}).front().second.shape(), row.given);
  }
}

}  // namespace
}  // namespace gpux
