#include "server/models/path_redaction.h"

#include <utility>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(PathRedaction, LeavesOnlyTheLastNameOfEachPath) {
  const std::pair<const char*, const char*> rows[] = {
      {"'/home/me/secret/model.onnx' cannot be used", "'model.onnx' cannot be used"},
      {"/home/me/model.onnx: No such file", "model.onnx: No such file"},
      {"cannot read (/home/me/model.onnx)", "cannot read (model.onnx)"},
      {"files [/home/me/a.onnx, /home/me/b.onnx]", "files [a.onnx, b.onnx]"},
      {"file=/home/me/a.onnx", "file=a.onnx"},
      {"model:/home/me/a.onnx", "model:a.onnx"},
      {"<../up/a.onnx> and ./here/b.onnx", "<a.onnx> and b.onnx"},
      {"in '~/models/a.onnx'", "in 'a.onnx'"},
      {"'/home/me/my models/big one.onnx' is damaged", "'big one.onnx' is damaged"},
      {"cannot open /home/me/my models/a.onnx: No such file", "cannot open a.onnx: No such file"},
      {"cannot open /home/my own models/v 1/a.onnx", "cannot open a.onnx"},
      {"Load model from /a/b/m.onnx failed:Load model /a/b/m.onnx failed",
       "Load model from m.onnx failed:Load model m.onnx failed"},
      {"/onnxruntime_src/core/graph/model.cc:146 Model() failed", "model.cc:146 Model() failed"},
      {"file:///home/me/a.onnx", "file:a.onnx"},
      {"in \"/home/me/\"", "in \"me\""},
      // These are no paths of the machine.
      {"12 runs/s, 3 / 4 and/or 5", "12 runs/s, 3 / 4 and/or 5"},
      {"https://example.org/models/a", "https://example.org/models/a"},
      {"application/json", "application/json"},
      {"float32[batch, 3]", "float32[batch, 3]"},
      {"...", "..."},
      {"", ""},
  };
  for (const auto& [message, expected] : rows) EXPECT_EQ(without_paths(message), expected) << message;
}

}  // namespace
}  // namespace gpux::server
