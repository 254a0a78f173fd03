// Every number of a text read by fast_float and nothing else: what bench/serve/run holds a whole request against.
// Prints the median processor time of one pass in microseconds.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fast_float/fast_float.h>
#include <sys/resource.h>

namespace {

double processor_microseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

// The elements of "data": [number, number, …].
std::vector<float> numbers_of(const std::string& text) {
  std::vector<float> numbers;
  const std::size_t data = text.find("\"data\"");
  if (data == std::string::npos) return numbers;
  const char* at = text.data() + text.find('[', data) + 1;
  const char* const end = text.data() + text.size();
  numbers.reserve(150'528);
  while (at != end && *at != ']') {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    float number = 0;
    at = fast_float::from_chars(at, end, number).ptr;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: bench_serve_parse REQUEST.json\n", stderr);
    return 2;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  constexpr int rounds = 101;
  std::vector<double> times;
  std::size_t read = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_microseconds();
    read += numbers_of(text).size();
    times.push_back(processor_microseconds() - start);
  }
  if (read == 0) {
    std::fputs("bench_serve_parse: the file holds no \"data\"\n", stderr);
    return 1;
  }
  std::sort(times.begin(), times.end());
  std::printf("%.1f\n", times[rounds / 2]);
  return 0;
}
