#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "embedding/sentence_encoder.h"

namespace gpux::bench {

/// What somebody writes who has the tokens already and uses ONNX Runtime's C++ interface well: one session of one
/// thread inside an operator, shared by threads, each of which runs one text after the other and reads its vector.
class PlainTexts {
 public:
  /// `texts` are int64 inputs that outlive the object; `core` is the ONNX Runtime library that gpux has opened.
  PlainTexts(const std::filesystem::path& core, const std::filesystem::path& model, const std::string& output,
             std::span<const embedding::PreparedText> texts);
  ~PlainTexts();

  /// Runs texts on `threads` threads for so long, over and over; gives texts a second.
  double measure(unsigned threads, std::chrono::duration<double> time);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::bench
