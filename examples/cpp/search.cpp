// Finds the texts that are nearest to a query: search MODEL QUERY TEXT...
#include <gpux/embedder.h>
#include <gpux/error.h>
#include <gpux/search.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const gpux::Embedder embedder(argv[1]);
    const std::vector<std::string> texts(argv + 3, argv + argc);
    const gpux::Embeddings embeddings = embedder.embed(texts);
    gpux::SearchIndex index;
    for (std::size_t i = 0; i < texts.size(); ++i) index.add(embeddings[i], texts[i]);
    for (const gpux::SearchHit& hit : index.search(embedder, argv[2], 3)) {
      std::printf("%.3f  %s\n", hit.score, hit.text.c_str());
    }
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
