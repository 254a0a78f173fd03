// Embeds texts, and compares them: embedder MODEL TEXT TEXT...
#include <gpux/embedder.h>
#include <gpux/error.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const gpux::Embedder embedder(argv[1]);
    const std::vector<std::string> texts(argv + 2, argv + argc);
    const gpux::Embeddings embeddings = embedder.embed(texts);
    std::printf("%s\n", to_line(embedder.verdict()).c_str());
    for (std::size_t i = 1; i < embeddings.size(); ++i) {
      const auto first = embeddings[0], other = embeddings[i];
      const float product = std::inner_product(first.begin(), first.end(), other.begin(), 0.0F);
      std::printf("%.3f  %s\n", product, texts[i].c_str());
    }
    // A text has the same embedding alone as with others, bit by bit.
    const std::vector<float> alone = embedder.embed(texts[0]);
    return std::equal(alone.begin(), alone.end(), embeddings[0].begin()) ? 0 : 1;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
