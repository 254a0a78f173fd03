// The choice that `fastest` keeps between loads. Whatever lies there, a choice is made, and then remembered.
#include "runtime/loading/fastest.h"

#include <array>

#include "base/files.h"
#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::filesystem::path file = scratch_folder() / "choice.json";
  write_file_atomically(file, input);
  std::array<runtime::FastestCandidate, 2> candidates;
  candidates[0].name = "cuda";
  candidates[1].name = "cpu";
  const auto measure = [](const runtime::FastestCandidate& candidate) {
    return runtime::Timing{candidate.name, candidate.name == "cpu" ? 1.5 : 0.5, {}};
  };
  must_succeed("choosing", [&] {
    const runtime::FastestChoice choice = runtime::choose_fastest(candidates, file, measure);
    require(choice.timings.size() == candidates.size(), "a choice between others");
    require(choice.candidate == runtime::fastest_of(choice.timings), "not the fastest");
    const runtime::FastestChoice again = runtime::choose_fastest(candidates, file, measure);
    require(again.remembered && again.candidate == choice.candidate, "the choice is not remembered");
  });
}
