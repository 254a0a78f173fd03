#include "checkpoint/image_preprocessing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

namespace fs = std::filesystem;
using image::Size;

/// transformers' constants: PIL's numbers of filters.
enum class Resample : std::uint8_t { bilinear = 2, bicubic = 3 };

/// What a size of one number means.
enum class SizeNumber : std::uint8_t { square, shortest, refused };

/// The defaults of an image processor.
struct Processor {
  std::string_view name;
  SizeNumber size_number;
  std::int64_t size;
  Resample resample;
  bool crops;
  std::int64_t crop;
  bool has_clip_means;  ///< mean and std of CLIP's training images; else 0.5
};

constexpr std::array<Processor, 5> processors{{
    {"CLIP", SizeNumber::shortest, 224, Resample::bicubic, true, 224, true},
    {"Siglip", SizeNumber::refused, 224, Resample::bicubic, false, 0, false},
    {"ViT", SizeNumber::square, 224, Resample::bilinear, false, 0, false},
    {"DeiT", SizeNumber::square, 256, Resample::bicubic, true, 224, false},
    {"Bit", SizeNumber::shortest, 224, Resample::bicubic, true, 224, true},
}};

const std::vector<double> clip_mean{0.48145466, 0.4578275, 0.40821073};
const std::vector<double> clip_deviation{0.26862954, 0.26130258, 0.27577711};
constexpr double half = 0.5;
constexpr double level_scale = 1.0 / 255;

/// Keys that change nothing that gpux does, or that other keys say again.
constexpr std::array<std::string_view, 12> ignored_keys{"data_format",
                                                        "disable_grouping",
                                                        "image_processor_type",
                                                        "feature_extractor_type",
                                                        "input_data_format",
                                                        "processor_class",
                                                        "return_tensors",
                                                        "_valid_processor_keys",
                                                        "device",
                                                        "auto_map",
                                                        "image_seq_length",
                                                        "num_channels"};
constexpr std::array<std::string_view, 11> known_keys{
    "crop_size",  "do_center_crop", "do_convert_rgb", "do_normalize",   "do_rescale", "do_resize",
    "image_mean", "image_std",      "resample",       "rescale_factor", "size"};

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class ProcessorReader {
 public:
  ProcessorReader(const JsonSettings& settings, const JsonSettings::Json& json) : settings_(settings), json_(json) {}

  image::Recipe read() {
    find_processor();
    refuse_unknown();
    image::Recipe recipe;
    if (flag("do_resize", true)) recipe.resize = resize();
    if (flag("do_center_crop", processor_->crops)) {
      recipe.crop = size_of("crop_size", Size{processor_->crop, processor_->crop}, true);
      recipe.crop_rounding = image::CropRounding::down;
      require_larger_than_crop(recipe);
    }
    const double factor = number("rescale_factor", level_scale);
    // Left out where it is the default, which divides by 255: the highest level is exactly 1 then.
    if (!flag("do_rescale", true)) {
      recipe.scale = 1;
    } else if (std::abs(factor - level_scale) > level_scale * 1e-9) {
      recipe.scale = factor;
    }
    if (flag("do_normalize", true)) {
      recipe.mean = numbers("image_mean", processor_->has_clip_means ? clip_mean : std::vector<double>{half});
      recipe.standard_deviation =
          numbers("image_std", processor_->has_clip_means ? clip_deviation : std::vector<double>{half});
    }
    const std::vector<image::RecipeProblem> problems = problems_of(recipe);
    if (!problems.empty()) settings_.refuse(fmt::format("{}: {}", problems.front().key, problems.front().message));
    return recipe;
  }

 private:
  const JsonSettings::Json* find(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  void find_processor() {
    std::string type;
    for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
      const auto* given = find(key);
      if (type.empty() && given != nullptr && given->is_string()) type = given->get<std::string>();
    }
    for (const Processor& processor : processors) {
      for (const char* suffix : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
        if (type == fmt::format("{}{}", processor.name, suffix)) processor_ = &processor;
      }
    }
    if (processor_ != nullptr) return;
    settings_.refuse_value("image_processor_type", type,
                           "CLIPImageProcessor, SiglipImageProcessor, ViTImageProcessor, DeiTImageProcessor, "
                           "BitImageProcessor");
  }

  // A step that gpux does not do would change the input without a word.
  void refuse_unknown() const {
    for (const auto& [key, value] : json_.items()) {
      const bool says_nothing = value.is_null() || (value.is_boolean() && !value.get<bool>());
      if (says_nothing || is_one_of(known_keys, key) || is_one_of(ignored_keys, key)) continue;
      settings_.refuse_value(key, value, "no such setting");
    }
  }

  bool flag(std::string_view key, bool otherwise) const {
    const auto* given = find(key);
    if (given == nullptr) return otherwise;
    if (!given->is_boolean()) settings_.refuse_value(key, *given, "true, false");
    return given->get<bool>();
  }

  double number(std::string_view key, double otherwise) const {
    const auto* given = find(key);
    if (given == nullptr) return otherwise;
    if (!given->is_number()) settings_.refuse_value(key, *given, "a number");
    return given->get<double>();
  }

  std::vector<double> numbers(std::string_view key, const std::vector<double>& otherwise) const {
    const auto* given = find(key);
    if (given == nullptr) return otherwise;
    if (given->is_number()) return {given->get<double>()};
    const bool fits = given->is_array() && given->size() <= 4 &&
                      std::all_of(given->begin(), given->end(), [](const auto& one) { return one.is_number(); });
    if (!fits) settings_.refuse_value(key, *given, "a number, or one for each channel");
    return given->get<std::vector<double>>();
  }

  std::int64_t side(std::string_view key, const JsonSettings::Json& value) const {
    if (value.is_number_integer() && value >= 1 && value <= image::limit_side) return value.get<std::int64_t>();
    settings_.refuse_value(key, value, fmt::format("a number of pixels, 1 to {}", image::limit_side));
  }

  // Both sides: {"height", "width"}, and where `is_square` also one number.
  Size size_of(std::string_view key, Size otherwise, bool is_square) const {
    const auto* given = find(key);
    if (given == nullptr) return otherwise;
    if (is_square && given->is_number()) return {side(key, *given), side(key, *given)};
    if (given->is_array() && given->size() == 2) return {side(key, (*given)[0]), side(key, (*given)[1])};
    if (given->is_object() && given->size() == 2 && given->contains("height") && given->contains("width")) {
      return {side(key, (*given)["height"]), side(key, (*given)["width"])};
    }
    settings_.refuse_value(key, *given, R"({"height": …, "width": …}, {"shortest_edge": …}, or one number)");
  }

  image::Resize resize() const {
    image::Resize resize;
    resize.mode = interpolation();
    const auto* given = find("size");
    const bool has_shortest =
        given != nullptr && given->is_object() && given->size() == 1 && given->contains("shortest_edge");
    const bool is_number = given == nullptr || given->is_number();
    if (has_shortest || (is_number && processor_->size_number == SizeNumber::shortest)) {
      const std::int64_t shortest = has_shortest       ? side("size.shortest_edge", (*given)["shortest_edge"])
                                    : given == nullptr ? processor_->size
                                                       : side("size", *given);
      resize.fit = image::Fit::shortest;
      resize.size = {shortest, shortest};
      return resize;
    }
    resize.fit = image::Fit::stretch;
    resize.size =
        size_of("size", Size{processor_->size, processor_->size}, processor_->size_number == SizeNumber::square);
    return resize;
  }

  image::Interpolation interpolation() const {
    const auto* given = find("resample");
    Resample resample = processor_->resample;
    if (given != nullptr) {
      const bool is_known = given->is_number_integer() && (*given == 2 || *given == 3);
      if (!is_known) settings_.refuse_value("resample", *given, "2 (bilinear), 3 (bicubic)");
      resample = *given == 2 ? Resample::bilinear : Resample::bicubic;
    }
    return resample == Resample::bilinear ? image::Interpolation::bilinear : image::Interpolation::bicubic;
  }

  // What is added around a smaller image differs between image processors.
  void require_larger_than_crop(const image::Recipe& recipe) const {
    if (!recipe.resize) settings_.refuse("do_center_crop without do_resize: images may be smaller than crop_size");
    const Size& resized = recipe.resize->size;
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): set by the caller
    if (resized.height >= recipe.crop->height && resized.width >= recipe.crop->width) return;
    settings_.refuse(fmt::format("images are resized to {}x{}, which is smaller than crop_size {}x{}", resized.width,
                                 // NOLINTNEXTLINE(bugprone-unchecked-optional-access): set by the caller
                                 resized.height, recipe.crop->width, recipe.crop->height));
  }

  const JsonSettings& settings_;
  const JsonSettings::Json& json_;
  const Processor* processor_ = nullptr;
};

std::string list_of(const std::vector<double>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

}  // namespace

bool has_image_preprocessing(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::is_regular_file(folder / "preprocessor_config.json", unreadable)) return true;
  const JsonSettings processor(folder / "processor_config.json");
  return processor.find("image_processor") != nullptr;
}

image::Recipe read_image_preprocessing(const fs::path& folder) {
  if (const JsonSettings settings(folder / "preprocessor_config.json"); settings.exists()) {
    return ProcessorReader(settings, settings.json()).read();
  }
  const JsonSettings processor(folder / "processor_config.json");
  const auto* settings = processor.find("image_processor");
  if (settings == nullptr) {
    throw Error(ErrorCode::not_found,
                format_message("'{}' has no preprocessor_config.json, which says how images become the model's input",
                               file_at(folder)));
  }
  if (!settings->is_object()) processor.refuse_value("image_processor", *settings, "an object");
  return ProcessorReader(processor, *settings).read();
}

std::string yaml_of(const image::Recipe& recipe) {
  std::string yaml = "preprocessing:\n";
  if (recipe.resize) {
    const image::Resize& resize = *recipe.resize;
    const std::string size = resize.fit == image::Fit::shortest
                                 ? fmt::format("{}", resize.size.height)
                                 : fmt::format("[{}, {}]", resize.size.height, resize.size.width);
    yaml += fmt::format("  resize: {{size: {}, fit: {}, mode: {}}}\n", size,
                        resize.fit == image::Fit::shortest ? "shortest" : "stretch",
                        resize.mode == image::Interpolation::bicubic ? "bicubic" : "bilinear");
  }
  if (recipe.crop) {
    yaml += fmt::format("  crop: {{size: [{}, {}], rounding: {}}}\n", recipe.crop->height, recipe.crop->width,
                        recipe.crop_rounding == image::CropRounding::down ? "down" : "half_even");
  }
  std::vector<std::string> normalize;
  if (recipe.scale) normalize.push_back(fmt::format("scale: {}", *recipe.scale));
  if (!recipe.mean.empty()) normalize.push_back("mean: " + list_of(recipe.mean));
  if (!recipe.standard_deviation.empty()) normalize.push_back("std: " + list_of(recipe.standard_deviation));
  if (!normalize.empty()) yaml += fmt::format("  normalize: {{{}}}\n", fmt::join(normalize, ", "));
  return yaml + "  color: rgb\n";
}

}  // namespace gpux::checkpoint
