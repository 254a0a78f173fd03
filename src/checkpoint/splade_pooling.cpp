#include "checkpoint/splade_pooling.h"

#include <string>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

SpladePooling read_splade_pooling(const std::filesystem::path& folder) {
  const JsonSettings settings(folder / "config.json");
  if (!settings.exists()) settings.refuse("is not there, and modules.json names its SpladePooling");
  SpladePooling pooling;
  const std::string strategy = settings.text("pooling_strategy");
  if (!strategy.empty() && strategy != "max" && strategy != "sum") {
    settings.refuse_value("pooling_strategy", strategy, "max, sum");
  }
  if (strategy == "sum") pooling.strategy = SpladePooling::Strategy::sum;
  const std::string activation = settings.text("activation_function");
  if (!activation.empty() && activation != "relu" && activation != "log1p_relu") {
    settings.refuse_value("activation_function", activation, "relu, log1p_relu");
  }
  pooling.has_second_log = activation == "log1p_relu";
  return pooling;
}

}  // namespace gpux::checkpoint
