#include "model/cache_agreement.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using generation::QuantizationAgreement;

QuantizationAgreement agreement_of(double original, double coded) {
  return {.precision = "int8",
          .what = "64 recorded texts",
          .positions = 1008,
          .perplexity = original,
          .quantized_perplexity = coded,
          .same_token = 0.96};
}

TEST(CacheAgreement, RefusesWhatChangesPredictions) {
  EXPECT_NO_THROW(require_cache_agreement(agreement_of(20, 19)));
  EXPECT_NO_THROW(require_cache_agreement(agreement_of(20, 20.9)));
  const double infinite = std::numeric_limits<double>::infinity();
  for (const auto& [original, coded] :
       {std::pair(20.0, 21.1), {20.0, infinite}, {20.0, std::nan("")}, {infinite, 20.0}}) {
    try {
      require_cache_agreement(agreement_of(original, coded));
      ADD_FAILURE() << coded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), testing::StartsWith("keys and values in int8 are refused for this model: "));
    }
  }
}

TEST(CacheAgreement, IsKept) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "kept" / "one.json";
  EXPECT_FALSE(read_kept_agreement(file).has_value());
  keep_agreement(file, agreement_of(20, std::numeric_limits<double>::infinity()));
  ASSERT_TRUE(read_kept_agreement(file).has_value());
  EXPECT_THROW(require_cache_agreement(*read_kept_agreement(file)), Error);
  keep_agreement(file, agreement_of(20, 20.5));
  const auto kept = read_kept_agreement(file);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->perplexity, 20);
  EXPECT_EQ(kept->quantized_perplexity, 20.5);
  EXPECT_EQ(kept->positions, 1008);
  EXPECT_EQ(kept->same_token, 0.96);
  for (const char* other : {"", "{", "[]", "{\"kind\": \"another\"}", "{\"kind\": \"int8-caches-1\"}"}) {
    write_file_atomically(file, std::string_view(other));
    EXPECT_FALSE(read_kept_agreement(file).has_value()) << other;
  }
}

TEST(CacheAgreement, IsThatOfTheFilesAndOfWhatRunsThem) {
  const test::TemporaryFolder folder;
  const fs::path model = folder.path() / "model.onnx", data = folder.path() / "data";
  write_file_atomically(model, std::string_view("model"));
  write_file_atomically(data, std::string_view("data"));
  const fs::path first = kept_agreement_file({model, data}, "", "decoder");
  EXPECT_EQ(kept_agreement_file({model, data}, "", "decoder"), first);
  EXPECT_NE(kept_agreement_file({model, data}, "", "decoder in bf16"), first);
  EXPECT_NE(kept_agreement_file({model, data}, "sha256:1", "decoder"), first);
  // Of a stored package, wherever it is.
  EXPECT_EQ(kept_agreement_file({model}, "sha256:1", "decoder"), kept_agreement_file({data}, "sha256:1", "decoder"));
  // As many bytes, with the date of before.
  const fs::file_time_type date = fs::last_write_time(data);
  std::ofstream(data) << "DATA";
  fs::last_write_time(data, date);
  EXPECT_NE(kept_agreement_file({model, data}, "", "decoder"), first);
}

}  // namespace
}  // namespace gpux
