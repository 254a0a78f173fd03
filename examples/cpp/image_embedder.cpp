// Compares images by their embeddings: image_embedder MODEL IMAGE IMAGE...
#include <gpux/error.h>
#include <gpux/image_embedder.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const gpux::ImageEmbedder embedder(argv[1]);
    std::vector<gpux::ImageData> images;
    for (int i = 2; i < argc; ++i) images.emplace_back(std::filesystem::path(argv[i]));
    const gpux::Embeddings embeddings = embedder.embed(images, {.normalize = true});
    std::printf("%s\n", to_line(embedder.verdict()).c_str());
    for (std::size_t i = 1; i < embeddings.size(); ++i) {
      const auto first = embeddings[0], other = embeddings[i];
      const float cosine = std::inner_product(first.begin(), first.end(), other.begin(), 0.0F);
      std::printf("%.3f  %s\n", cosine, argv[2 + i]);
    }
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
