// Reading and writing an image's tensor as JSON, beside fast_float and std::to_chars alone on the same numbers.
// Prints medians in milliseconds as one JSON object.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fast_float/fast_float.h>

#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_writer.h"

namespace {

using gpux::ElementType;

constexpr int rounds = 41;
const gpux::Shape picture{1, 3, 224, 224};

struct Measurement {
  const char* name;
  std::function<void()> work;
  std::vector<double> milliseconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string random_numbers() {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same numbers each time
  std::normal_distribution<double> normal;
  gpux::Tensor tensor = gpux::Tensor::allocate(ElementType::float64, picture);
  for (double& number : tensor.mutable_as<double>()) number = normal(random);
  std::string json;
  gpux::append_json(json, tensor);
  return json;
}

gpux::ValueType type_of(ElementType element) {
  gpux::ValueType type{.element = element, .dimensions = std::vector<gpux::Dimension>{{.name = "batch"}}};
  for (std::size_t i = 1; i < picture.size(); ++i) type.dimensions->push_back({.size = picture[i]});
  return type;
}

std::vector<float> fast_float_alone(const std::string& text) {
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(gpux::element_count(picture)));
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == '[' || *at == ',' || *at == ']') {
      ++at;
      continue;
    }
    float number = 0;
    at = fast_float::from_chars(at, end, number).ptr;
    numbers.push_back(number);
  }
  return numbers;
}

std::string to_chars_alone(const gpux::Tensor& tensor) {
  std::string text;
  for (const float number : tensor.as<float>()) {
    std::array<char, 32> digits{};
    text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
    text += ',';
  }
  return text;
}

}  // namespace

int main() {
  const std::string numbers = random_numbers();
  const std::string request = "{\"inputs\": " + numbers + "}";
  const gpux::ValueType float32 = type_of(ElementType::float32);
  const gpux::ValueType float16 = type_of(ElementType::float16);
  const gpux::Value image = gpux::read_json_value(numbers, float32, "x");
  const gpux::Value small_image = gpux::read_json_value(numbers, float16, "x");
  const auto read = [&](std::string_view text, const gpux::ValueType& type) { gpux::read_json_value(text, type, "x"); };
  const auto write = [](const gpux::Value& value) {
    std::string text;
    gpux::append_json(text, value);
  };
  std::array<Measurement, 7> measurements{{
      {"fast_float_alone", [&] { fast_float_alone(numbers); }, {}},
      {"read_float32", [&] { read(numbers, float32); }, {}},
      {"split_and_read_float32", [&] { read(gpux::split_object(request).front().raw, float32); }, {}},
      {"read_float16", [&] { read(numbers, float16); }, {}},
      {"to_chars_alone", [&] { to_chars_alone(*image.tensor()); }, {}},
      {"write_float32", [&] { write(image); }, {}},
      {"write_float16", [&] { write(small_image); }, {}},
  }};
  // Taken in turns, so that a slow moment of the machine meets all of them.
  for (int round = 0; round < rounds; ++round) {
    for (Measurement& measurement : measurements) {
      const auto start = std::chrono::steady_clock::now();
      measurement.work();
      const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
      measurement.milliseconds.push_back(taken.count());
    }
  }
  std::printf("{\"floats\": %lld, \"bytes\": %zu", static_cast<long long>(gpux::element_count(picture)),
              numbers.size());
  for (const Measurement& measurement : measurements) {
    std::printf(", \"%s\": %.2f", measurement.name, median(measurement.milliseconds));
  }
  std::printf("}\n");
  return 0;
}
