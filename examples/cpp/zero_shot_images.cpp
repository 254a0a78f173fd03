// Scores images by labels: zero_shot_images MODEL LABEL,LABEL... IMAGE...
#include <gpux/error.h>
#include <gpux/zero_shot_images.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    gpux::ZeroShotImageOptions options;
    std::istringstream words(argv[2]);
    for (std::string label; std::getline(words, label, ',');) options.labels.push_back(label);
    const gpux::ZeroShotImageClassifier classifier(argv[1], options);
    std::vector<gpux::ImageData> images;
    for (int i = 3; i < argc; ++i) images.emplace_back(std::filesystem::path(argv[i]));
    const auto all = classifier.classify(images);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::printf("%.3f  %s  %s\n", all[i].front().score, all[i].front().label.c_str(), argv[3 + i]);
    }
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
